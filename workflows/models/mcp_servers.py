"""MCP servers that offer tools."""

from __future__ import annotations

from django.db import models

from workflows.common.secret_encryption import EncryptedTexts


class McpServer(models.Model):
    """An MCP server whose tools the catalogue offers as `name.tool`."""

    class Transport(models.TextChoices):
        STDIO = "stdio", "stdio"
        HTTP = "http", "streamable HTTP"

    name = models.SlugField(max_length=60, unique=True)
    transport = models.CharField(max_length=10, choices=Transport.choices, default=Transport.STDIO)
    command = models.CharField(max_length=500, blank=True, default="")
    args = models.JSONField(blank=True, default=list)
    env = EncryptedTexts(blank=True, default=dict)
    url = models.URLField(max_length=500, blank=True, default="")
    headers = EncryptedTexts(blank=True, default=dict)
    # What a stdio server sees besides programs and the folder of its run.
    read_paths = models.JSONField(blank=True, default=list, db_default=[])
    write_paths = models.JSONField(blank=True, default=list, db_default=[])
    tcp_ports = models.JSONField("TCP ports", blank=True, default=list, db_default=[])
    enabled = models.BooleanField(default=True)
    synced_at = models.DateTimeField(null=True, blank=True, editable=False)
    sync_error = models.TextField(blank=True, default="", editable=False)

    class Meta:
        ordering = ("name",)
        verbose_name = "MCP server"

    def __str__(self) -> str:
        return self.name
