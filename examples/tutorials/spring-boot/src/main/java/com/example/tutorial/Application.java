package com.example.tutorial;

import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.core.annotation.AuthenticationPrincipal;
import org.springframework.security.oauth2.client.OAuth2AuthorizedClient;
import org.springframework.security.oauth2.client.annotation.RegisteredOAuth2AuthorizedClient;
import org.springframework.security.oauth2.client.oidc.web.logout.OidcClientInitiatedLogoutSuccessHandler;
import org.springframework.security.oauth2.client.registration.ClientRegistrationRepository;
import org.springframework.security.oauth2.core.oidc.user.OidcUser;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.security.web.csrf.CsrfToken;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestClient;
import org.springframework.web.util.HtmlUtils;

@SpringBootApplication
@RestController
public class Application {

    public static void main(String[] arguments) {
        SpringApplication.run(Application.class, arguments);
    }

    @Bean
    SecurityFilterChain security(HttpSecurity http, ClientRegistrationRepository clients,
            @Value("${APP_URL}") String appUrl) throws Exception {
        var logout = new OidcClientInitiatedLogoutSuccessHandler(clients);
        logout.setPostLogoutRedirectUri(appUrl + "/");
        return http
            .authorizeHttpRequests(requests -> requests.requestMatchers("/").permitAll().anyRequest().authenticated())
            .oauth2Login(login -> login.redirectionEndpoint(callback -> callback.baseUri("/callback")))
            .logout(settings -> settings.logoutSuccessHandler(logout))
            .build();
    }

    @GetMapping("/")
    String home(@AuthenticationPrincipal OidcUser user, CsrfToken csrf) {
        if (user == null) {
            return "<a href=\"/oauth2/authorization/identity\">Sign in</a>";
        }
        return "<p>Signed in as " + HtmlUtils.htmlEscape(user.getEmail()) + "</p>"
            + "<form method=\"post\" action=\"/logout\">"
            + "<input type=\"hidden\" name=\"" + csrf.getParameterName() + "\" value=\"" + csrf.getToken() + "\">"
            + "<button>Sign out</button></form>";
    }

    /** The access token is refreshed before it is passed here, if it has expired. */
    @GetMapping("/profile")
    Map<?, ?> profile(@RegisteredOAuth2AuthorizedClient("identity") OAuth2AuthorizedClient client) {
        return RestClient.create(client.getClientRegistration().getProviderDetails().getUserInfoEndpoint().getUri())
            .get()
            .headers(headers -> headers.setBearerAuth(client.getAccessToken().getTokenValue()))
            .retrieve()
            .body(Map.class);
    }
}
