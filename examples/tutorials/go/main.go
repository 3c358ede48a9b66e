package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

type session struct {
	state, nonce, verifier string // of a login that has started
	idToken, email         string // of a signed-in user
}

var (
	appURL   = os.Getenv("APP_URL")
	clientID = os.Getenv("OIDC_CLIENT_ID")
	sessions sync.Map // by cookie; a production application uses a database
)

func newSession(w http.ResponseWriter, value session) {
	id := oauth2.GenerateVerifier() // 256 random bits
	sessions.Store(id, value)
	http.SetCookie(w, &http.Cookie{Name: "tutorial", Value: id, Path: "/", HttpOnly: true,
		Secure: strings.HasPrefix(appURL, "https:"), SameSite: http.SameSiteLaxMode})
}

// takeSession returns and removes the session of the request.
func takeSession(r *http.Request) session {
	if cookie, err := r.Cookie("tutorial"); err == nil {
		if value, found := sessions.LoadAndDelete(cookie.Value); found {
			return value.(session)
		}
	}
	return session{}
}

func main() {
	provider, err := oidc.NewProvider(context.Background(), os.Getenv("OIDC_ISSUER"))
	if err != nil {
		log.Fatal(err)
	}
	var endpoints struct {
		EndSession string `json:"end_session_endpoint"`
	}
	if err := provider.Claims(&endpoints); err != nil {
		log.Fatal(err)
	}
	config := oauth2.Config{ClientID: clientID, ClientSecret: os.Getenv("OIDC_CLIENT_SECRET"), Endpoint: provider.Endpoint(),
		RedirectURL: appURL + "/callback", Scopes: []string{oidc.ScopeOpenID, "profile", "email"}}
	verifier := provider.Verifier(&oidc.Config{ClientID: clientID})

	http.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if cookie, err := r.Cookie("tutorial"); err == nil {
			if value, found := sessions.Load(cookie.Value); found && value.(session).email != "" {
				fmt.Fprintf(w, `<p>Signed in as %s</p><form method="post" action="/logout"><button>Sign out</button></form>`,
					html.EscapeString(value.(session).email))
				return
			}
		}
		fmt.Fprint(w, `<a href="/login">Sign in</a>`)
	})

	http.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		login := session{state: oauth2.GenerateVerifier(), nonce: oauth2.GenerateVerifier(), verifier: oauth2.GenerateVerifier()}
		newSession(w, login)
		http.Redirect(w, r, config.AuthCodeURL(login.state, oidc.Nonce(login.nonce), oauth2.S256ChallengeOption(login.verifier)), http.StatusFound)
	})

	http.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		login := takeSession(r)
		if login.state == "" || r.FormValue("state") != login.state {
			http.Error(w, "this response belongs to no login of this browser", http.StatusBadRequest)
			return
		}
		token, err := config.Exchange(r.Context(), r.FormValue("code"), oauth2.VerifierOption(login.verifier))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		rawIDToken, _ := token.Extra("id_token").(string)
		idToken, err := verifier.Verify(r.Context(), rawIDToken)
		if err != nil || idToken.Nonce != login.nonce {
			http.Error(w, "invalid ID token", http.StatusBadRequest)
			return
		}
		user := session{idToken: rawIDToken}
		var claims struct{ Email string }
		if err := idToken.Claims(&claims); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		user.email = claims.Email
		newSession(w, user)
		http.Redirect(w, r, "/", http.StatusFound)
	})

	http.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) {
		query := url.Values{"id_token_hint": {takeSession(r).idToken}, "post_logout_redirect_uri": {appURL + "/"}}
		http.Redirect(w, r, endpoints.EndSession+"?"+query.Encode(), http.StatusSeeOther)
	})

	http.HandleFunc("GET /api/orders", func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		accessToken, err := verifier.Verify(r.Context(), token) // signature, issuer, audience, expiry
		var claims struct{ Tty string }
		if err != nil || accessToken.Claims(&claims) != nil || claims.Tty != "at" { // an access token, not an ID token
			http.Error(w, "invalid access token", http.StatusUnauthorized)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"user": accessToken.Subject, "orders": []string{}})
	})

	log.Print("Open ", appURL)
	log.Fatal(http.ListenAndServe(strings.TrimPrefix(appURL, "http://"), nil))
}
