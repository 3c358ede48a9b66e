import views
from django.urls import path

urlpatterns = [
    path("", views.home, name="home"),
    path("login/", views.sign_in, name="sign_in"),
    path("callback/", views.callback, name="callback"),
    path("logout/", views.sign_out, name="sign_out"),
    path("profile/", views.profile, name="profile"),
]
