import json
import os
import sys
import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import requests
from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session

TOKEN_FILE = Path("token.json")
metadata = requests.get(os.environ["OIDC_ISSUER"] + "/.well-known/openid-configuration", timeout=10).json()


def save(token, **_):
    TOKEN_FILE.touch(mode=0o600)
    TOKEN_FILE.write_text(json.dumps(token))


def session(token=None):
    return OAuth2Session(
        os.environ["OIDC_CLIENT_ID"],
        scope="openid profile email offline_access",
        token_endpoint_auth_method="none",
        code_challenge_method="S256",
        token=token,
        token_endpoint=metadata["token_endpoint"],
        update_token=save,  # called after each refresh
    )


class Callback(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.response_url = f"http://127.0.0.1:{self.server.server_port}{self.path}"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"Signed in. You can close this window.")

    def log_message(self, *_):
        pass


def sign_in():
    server, verifier = HTTPServer(("127.0.0.1", 0), Callback), generate_token(48)
    client = session()
    client.redirect_uri = f"http://127.0.0.1:{server.server_port}/callback"
    url, state = client.create_authorization_url(metadata["authorization_endpoint"], code_verifier=verifier)
    print("Open this page to sign in:", url, flush=True)
    webbrowser.open(url)
    server.handle_request()
    save(client.fetch_token(authorization_response=server.response_url, state=state, code_verifier=verifier))


def show_user():
    if not TOKEN_FILE.exists():
        sign_in()
    user = session(json.loads(TOKEN_FILE.read_text())).get(metadata["userinfo_endpoint"]).json()
    print("Signed in as", user["email"])


def sign_out():
    token = json.loads(TOKEN_FILE.read_text())
    session(token).revoke_token(metadata["revocation_endpoint"], token["refresh_token"], "refresh_token")
    TOKEN_FILE.unlink()
    print("Signed out")


sign_out() if sys.argv[1:] == ["logout"] else show_user()
