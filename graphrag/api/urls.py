"""Routes below the API's root: ``tools/``, and ``search/``, ``next/`` and ``suggest/`` in it."""

from rest_framework.routers import SimpleRouter

from graphrag.api.views import ToolViewSet

router = SimpleRouter()
router.register("tools", ToolViewSet, basename="tool")

urlpatterns = router.urls
