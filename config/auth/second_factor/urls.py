"""URLs of second factors: enrolment, confirmation with a code, recovery codes."""

from allauth.account.views import reauthenticate
from django.urls import include, path
from django.views.generic import RedirectView

from .views import confirmed

urlpatterns = [
    path("second-factor/confirmed/", confirmed, name="step-up-confirmed"),
    path("second-factor/", include("allauth.mfa.urls")),
    path("password/", reauthenticate, name="account_reauthenticate"),
    path("sign-in/", RedirectView.as_view(pattern_name="login"), name="account_login"),
]
