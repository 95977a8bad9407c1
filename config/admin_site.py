"""The admin site: Django's own, under our name, with a way back to the review desk."""

from django.contrib.admin import AdminSite


class HoldpointAdminSite(AdminSite):
    """`admin.site` of the product."""

    site_header = "Holdpoint"
    site_title = "Holdpoint"
    index_title = "Administration"
    site_url = "/review/"
    # An unknown address is answered as everywhere else; Django's own would turn a POST into a GET.
    final_catch_all_view = False
