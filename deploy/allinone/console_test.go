package allinone_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// tab is a browser as far as HTTP shows it: it keeps its cookie, and follows no redirect.
type tab struct {
	*site
	cookie *http.Cookie
}

// send sends a request as a browser does from a page of the console, with the changes of edit.
func (b *tab) send(method, path string, form url.Values, edit func(*http.Request)) (*http.Response, string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.url()+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	if edit != nil {
		edit(r)
	}
	c := http.Client{
		Timeout:       20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := c.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	return answer, string(body)
}

func (b *tab) get(path string) (*http.Response, string) {
	b.Helper()
	return b.send(http.MethodGet, path, nil, nil)
}

// code asks for a one-time code as a user.
func (s *site) code(who trust.Context) string {
	s.Helper()
	b := &tab{site: s}
	answer, body := b.send(http.MethodPost, "/console/codes", nil, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+who.Bearer())
	})
	var made struct{ Code string }
	if err := json.Unmarshal([]byte(body), &made); err != nil || made.Code == "" {
		s.Fatalf("no code: %s %s", answer.Status, body)
	}
	return made.Code
}

// signIn returns a tab that is signed in as a user.
func (s *site) signIn(who trust.Context) *tab {
	s.Helper()
	b := &tab{site: s}
	form := url.Values{"code": {s.code(who)}, "to": {"/console/servers"}}
	if answer, body := b.send(http.MethodPost, "/console/login", form, nil); !strings.Contains(body, who.Actor) {
		s.Fatalf("the page does not say whose code it is: %s\n%s", answer.Status, body)
	}
	form.Set("confirmed", "1")
	answer, _ := b.send(http.MethodPost, "/console/login", form, nil)
	if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != "/console/servers" {
		s.Fatalf("signing in ended with %s, at %s", answer.Status, answer.Header.Get("Location"))
	}
	b.cookie = answer.Cookies()[0]
	return b
}

func TestACodeSignsOneBrowserIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := s.user("ann", topology.Operator)
	b := s.signIn(ann)
	if c := b.cookie; !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" ||
		!strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("the cookie is %v", c)
	}
	if strings.Contains(b.cookie.Value, ann.Seed) {
		t.Error("the cookie holds the seed")
	}
	if answer, body := b.get("/console/"); answer.StatusCode != http.StatusOK || !strings.Contains(body, "ann") {
		t.Errorf("the page of the fleet: %s", answer.Status)
	}

	form := url.Values{"code": {s.code(ann)}, "confirmed": {"1"}}
	for n, want := range []int{http.StatusSeeOther, http.StatusUnauthorized} {
		if answer, _ := b.send(http.MethodPost, "/console/login", form, nil); answer.StatusCode != want {
			t.Errorf("use %d of a code: %s", n+1, answer.Status)
		}
	}
	form.Set("code", "AAAAA-AAAAA")
	if answer, body := b.send(http.MethodPost, "/console/login", form, nil); answer.StatusCode !=
		http.StatusUnauthorized {
		t.Errorf("a code that does not exist: %s\n%s", answer.Status, body)
	}
}

func TestPagesOfOthersReachNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.signIn(s.user("ann", topology.Operator))
	for what, edit := range map[string]func(*http.Request){
		"a page of another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a page of a sibling host": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"an older browser from there": func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "http://evil.example")
		},
	} {
		if answer, _ := b.send(http.MethodPost, "/console/logout", url.Values{}, edit); answer.StatusCode !=
			http.StatusForbidden {
			t.Errorf("a form of %s: %s", what, answer.Status)
		}
	}
	answer, _ := b.send(http.MethodGet, "/console/", nil, func(r *http.Request) { r.Host = "evil.example" })
	if answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("under the name of another host: %s", answer.Status)
	}
	for _, to := range []string{"https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)",
		"/console/../openapi.json"} {
		answer, body := b.get("/console/login?" + url.Values{"to": {to}}.Encode())
		if !strings.Contains(body, `name="to" value="/console/"`) {
			t.Errorf("to %s: %s\n%s", to, answer.Status, body)
		}
	}
	answer, _ = b.get("/console/")
	for name, want := range map[string]string{
		"Content-Security-Policy": "frame-ancestors 'none'", "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		if have := answer.Header.Get(name); !strings.Contains(have, want) {
			t.Errorf("%s is %q", name, have)
		}
	}
}

func TestASessionEndsWithItsUserAndWhenItIsLeft(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.signIn(s.user("ann", topology.Operator))
	if answer, _ := (&tab{site: s}).get("/console/servers?on=env%3Dprod"); answer.Header.Get("Location") !=
		"/console/login?to=%2Fconsole%2Fservers%3Fon%3Denv%253Dprod" {
		t.Errorf("without a session: %s at %s", answer.Status, answer.Header.Get("Location"))
	}
	b.send(http.MethodPost, "/console/logout", url.Values{}, nil)
	if answer, _ := b.get("/console/"); answer.StatusCode != http.StatusSeeOther {
		t.Errorf("after signing out: %s", answer.Status)
	}

	bob := s.signIn(s.created("bob"))
	live, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url()+"/console/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	live.AddCookie(bob.cookie)
	stream, err := http.DefaultClient.Do(live)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatal(err, stream)
	}
	defer stream.Body.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, bufio.NewReader(stream.Body))
		ended <- err
	}()
	s.revoke("bob")
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		t.Error("the stream of a revoked user goes on")
	}
	if answer, body := bob.get("/console/"); answer.StatusCode == http.StatusOK {
		t.Errorf("a revoked user still sees the fleet:\n%s", body)
	}
}

// created returns the credentials of a viewer that access created.
func (s *site) created(name string) trust.Context {
	s.Helper()
	public, seed, err := trust.NewUserKey()
	if err != nil {
		s.Fatal(err)
	}
	r, err := client.Call[*accessv1.CreateUserResponse](s.Context(), s.client(s.user("root", topology.Admin)),
		&accessv1.CreateUserRequest{Name: name, Role: userv1.Role_ROLE_VIEWER, PublicKey: public})
	if err != nil {
		s.Fatal(err)
	}
	return trust.Context{Actor: name, JWT: r.GetJwt(), Seed: string(seed)}
}

// revoke has access revoke a user.
func (s *site) revoke(name string) {
	s.Helper()
	if _, err := client.Call[*accessv1.RevokeUserResponse](s.Context(), s.client(s.user("root", topology.Admin)),
		&accessv1.RevokeUserRequest{Name: name}); err != nil {
		s.Fatal(err)
	}
}

func TestAViewerIsOfferedNoChangeAndCanMakeNone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.client(s.user("root", topology.Admin))
	if _, err := client.Call[*registryv1.InviteServerResponse](t.Context(), c,
		&registryv1.InviteServerRequest{Name: "web-1"}); err != nil {
		t.Fatal(err)
	}
	vic := s.signIn(s.user("vic", topology.Viewer))
	for who, want := range map[*tab]bool{vic: false, s.signIn(s.user("ann", topology.Operator)): true} {
		for _, path := range []string{"/console/servers", "/console/servers/web-1"} {
			if _, body := who.get(path); strings.Contains(body, "Show the plan") != want {
				t.Errorf("%s offers a change: %v, want %v", path, !want, want)
			}
		}
	}
	if _, body := vic.get("/console/servers?life=invited"); !strings.Contains(body, "web-1") {
		t.Errorf("the invited server is not listed:\n%s", body)
	}
	intent := `{"rollout":{"on":{"all":true},"steps":[{"remove":{"agent":"beacon"}}]},"guard":{"changed":1}}`
	form := url.Values{"id": {client.NewID()}, "intent": {intent}}
	if answer, body := vic.send(http.MethodPost, "/console/start", form, nil); answer.StatusCode !=
		http.StatusForbidden {
		t.Errorf("a viewer starts a rollout: %s\n%s", answer.Status, body)
	}
	form.Set("id", "*")
	if answer, _ := vic.send(http.MethodPost, "/console/start", form, nil); answer.StatusCode !=
		http.StatusBadRequest {
		t.Errorf("the id * : %s", answer.Status)
	}
}

// An approver sees rollouts, and is led to them.
func TestAnApproverIsShownRollouts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.signIn(s.user("app", topology.Approver))
	answer, body := b.get("/console/")
	if answer.StatusCode != http.StatusOK || !strings.Contains(body, "<h1>Rollouts</h1>") ||
		strings.Contains(body, `href="/console/people"`) {
		t.Errorf("the first page of an approver: %s\n%s", answer.Status, body)
	}
}

// Texts of others are texts on every page that has them.
func TestNoTextOfOthersIsMarkup(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.signIn(s.user("ann", topology.Operator))
	hostile := `"><script>alert(1)</script><a href="javascript:alert(1)">x</a>`
	for _, path := range []string{
		"/console/servers?on=", "/console/servers?trouble=", "/console/instances?agent=", "/console/events?noun=",
		"/console/events?actor=", "/console/plan?verb=up&on=all&agent=", "/console/images?agent=", "/console/codes/",
		"/console/servers/", "/console/rollouts/", "/console/login?to=", "/console/servers?as=",
	} {
		answer, body := b.get(path + url.PathEscape(hostile))
		if strings.Contains(body, "<script>alert") || strings.Contains(body, `href="javascript:`) {
			t.Errorf("%s: %s\n%s", path, answer.Status, body)
		}
	}
}
