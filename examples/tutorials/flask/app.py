import os

from authlib.integrations.flask_client import OAuth
from flask import Flask, abort, jsonify, redirect, render_template_string, request, session, url_for
from joserfc import errors, jws, jwt
from joserfc.jwk import KeySet

app = Flask(__name__)
app.secret_key = os.environ["FLASK_SECRET_KEY"]
app.config["SESSION_COOKIE_SAMESITE"] = "Lax"

identity = OAuth(app).register(
    "identity",
    client_id=os.environ["OIDC_CLIENT_ID"],
    client_secret=os.environ["OIDC_CLIENT_SECRET"],
    server_metadata_url=os.environ["OIDC_ISSUER"] + "/.well-known/openid-configuration",
    client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256"},
)
SIGNATURES = jws.JWSRegistry(algorithms=["RS256", "ES256"], strict_check_header=False)
ACCESS_TOKEN_CLAIMS = jwt.JWTClaimsRegistry(
    iss={"essential": True, "value": os.environ["OIDC_ISSUER"]},
    aud={"essential": True, "value": os.environ["OIDC_CLIENT_ID"]},
    exp={"essential": True},
    tty={"essential": True, "value": "at"},  # an access token, not an ID token
)
HOME = """{% if user %}<p>Signed in as {{ user.email }}</p>
<form method="post" action="/logout"><button>Sign out</button></form>
{% else %}<a href="/login">Sign in</a>{% endif %}"""


@app.get("/")
def home():
    return render_template_string(HOME, user=session.get("user"))


@app.get("/login")
def login():
    return identity.authorize_redirect(url_for("callback", _external=True))


@app.get("/callback")
def callback():
    token = identity.authorize_access_token()  # verifies state, nonce and the ID token
    session["user"], session["id_token"] = token["userinfo"], token["id_token"]
    return redirect("/")


@app.post("/logout")
def logout():
    id_token = session.pop("id_token", None)
    session.clear()
    return identity.logout_redirect(url_for("home", _external=True), id_token_hint=id_token)


@app.get("/api/orders")
def orders():
    _, _, token = request.headers.get("Authorization", "").partition("Bearer ")
    try:
        access_token = jwt.decode(token, signing_keys, registry=SIGNATURES)
        ACCESS_TOKEN_CLAIMS.validate(access_token.claims)
    except (errors.JoseError, ValueError):
        abort(401)
    return jsonify(orders=[], user=access_token.claims["sub"])


def signing_keys(token):
    known = {key["kid"] for key in identity.fetch_jwk_set()["keys"]}
    is_new = token.headers().get("kid") not in known  # the service has rotated its keys
    return KeySet.import_key_set(identity.fetch_jwk_set(force=is_new))
