import time

from authlib.integrations.django_client import OAuth
from django.contrib.auth import login, logout
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template import engines
from django.urls import reverse
from django.views.decorators.http import require_POST

identity = OAuth().register("identity")
HOME = engines["django"].from_string("""{% if user.is_authenticated %}<p>Signed in as {{ user.email }}</p>
<form method="post" action="{% url 'sign_out' %}">{% csrf_token %}<button>Sign out</button></form>
{% else %}<a href="{% url 'sign_in' %}">Sign in</a>{% endif %}""")


def home(request):
    return HttpResponse(HOME.render({"user": request.user}, request))


def sign_in(request):
    return identity.authorize_redirect(request, request.build_absolute_uri(reverse("callback")))


def callback(request):
    token = identity.authorize_access_token(request)  # verifies state, nonce and the ID token
    claims = token["userinfo"]
    user, _ = User.objects.update_or_create(username=claims["sub"], defaults={"email": claims["email"]})
    login(request, user)
    request.session["token"] = token
    return redirect("home")


@require_POST
def sign_out(request):
    id_token = request.session.get("token", {}).get("id_token", "")
    logout(request)
    home_url = request.build_absolute_uri(reverse("home"))
    return identity.logout_redirect(request, post_logout_redirect_uri=home_url, id_token_hint=id_token)


@login_required
def profile(request):
    url = identity.load_server_metadata()["userinfo_endpoint"]
    return JsonResponse(identity.get(url, token=current_token(request)).json())


def current_token(request):
    token = request.session["token"]
    if token["expires_at"] < time.time() + 60:
        token |= identity.fetch_access_token(grant_type="refresh_token", refresh_token=token["refresh_token"])
        request.session["token"] = token
    return token
