import os
import sys
import time

import requests

client_id = os.environ["OIDC_CLIENT_ID"]
metadata = requests.get(os.environ["OIDC_ISSUER"] + "/.well-known/openid-configuration", timeout=10).json()


def post(endpoint, **form):
    return requests.post(metadata[endpoint], data={"client_id": client_id, **form}, timeout=10)


def sign_in():
    response = post("device_authorization_endpoint", scope="openid profile email offline_access")
    response.raise_for_status()
    codes = response.json()
    print("Open", codes["verification_uri"], "and enter the code", codes["user_code"])
    print("or open", codes["verification_uri_complete"], flush=True)
    interval = codes.get("interval", 5)
    while True:
        time.sleep(interval)
        grant_type = "urn:ietf:params:oauth:grant-type:device_code"
        response = post("token_endpoint", grant_type=grant_type, device_code=codes["device_code"])
        if response.ok:
            return response.json()
        error = response.json()["error"]
        if error == "slow_down":
            interval += 5
        elif error != "authorization_pending":
            sys.exit(f"Not signed in: {error}")


def refresh(token):
    response = post("token_endpoint", grant_type="refresh_token", refresh_token=token["refresh_token"])
    response.raise_for_status()
    return token | response.json()


token = refresh(sign_in())
headers = {"Authorization": f"Bearer {token['access_token']}"}
user = requests.get(metadata["userinfo_endpoint"], headers=headers, timeout=10).json()
print("Signed in as", user["email"])

post("revocation_endpoint", token=token["refresh_token"]).raise_for_status()
print("Signed out")
