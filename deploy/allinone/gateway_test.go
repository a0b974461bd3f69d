package allinone_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
)

const (
	registryPath = "/garrison.registry.v1.RegistryService/"
	catalogPath  = "/garrison.catalog.v1.CatalogService/"
	intentPath   = "/garrison.gateway.v1.GatewayService/PublishIntent"
)

// site is a Garrison with a gateway, and callers of it.
type site struct {
	*testing.T
	*allinone.Garrison
	stop     func()
	measured *metrics.Set
}

func newSite(t *testing.T) *site {
	t.Helper()
	return siteIn(t, t.TempDir(), allinone.HTTP{Listen: "127.0.0.1:0"})
}

func siteIn(t *testing.T, dir string, http allinone.HTTP) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	measured := metrics.New()
	g, err := allinone.Start(ctx, allinone.Config{
		Data: dir, Listen: "127.0.0.1:0", Log: zerolog.Nop(), Lazy: true, HTTP: http, Metrics: measured,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, Garrison: g, stop: bustest.Go(t, g.Run), measured: measured}
	t.Cleanup(func() { s.stop(); g.Close() })
	if err := g.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// url returns the address of the gateway.
func (s *site) url() string { return allinone.HTTPURL(s.Garrison) }

// user returns the context of a new user.
func (s *site) user(name string, role topology.Role) trust.Context {
	s.Helper()
	c, err := s.Authority().Person(name, role, s.URL(), time.Now().Add(time.Hour))
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// client connects a user to the bus.
func (s *site) client(who trust.Context) *client.Client {
	s.Helper()
	at, err := trust.ReadContext(s.ContextFile())
	if err != nil {
		s.Fatal(err)
	}
	who.URL, who.CA = at.URL, at.CA
	c, err := client.Connect(s.Context(), client.Options{Context: who})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	return c
}

// facts returns the facts about a noun.
func (s *site) facts(noun ledger.Noun, key string) (all []client.Event) {
	s.Helper()
	for e, err := range s.client(s.user("auditor", topology.Viewer)).Events(s.Context(),
		client.Query{Noun: noun, Key: key}) {
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request with a token and headers, given as pairs.
func (s *site) ask(method, path, token, body string, headers ...string) answer {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, s.url()+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = r.Body.Close() }()
	got, err := io.ReadAll(r.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{r.StatusCode, r.Header, string(got)}
}

func (s *site) want(a answer, status int, part string) {
	s.Helper()
	if a.status != status || !strings.Contains(a.body, part) {
		s.Errorf("answered %d: %s; want %d with %s", a.status, a.body, status, part)
	}
}

func TestARequestWithoutValidCredentialsReachesNoService(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann, bob := s.user("ann", topology.Admin), s.user("bob", topology.Admin)
	other, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := other.Person("ann", topology.Admin, s.URL(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	late, err := s.Authority().Person("late", topology.Admin, s.URL(), time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"none": "", "a word": "secret", "cut": ann.Bearer()[:len(ann.Bearer())-1], "no key": ann.JWT + ".",
		"of another Garrison": stranger.Bearer(), "expired": late.Bearer(),
		"with the key of another": trust.Context{JWT: ann.JWT, Seed: bob.Seed}.Bearer(),
	} {
		t.Run(name, func(t *testing.T) {
			a := s.ask("POST", registryPath+"ListServers", token, "{}")
			if a.status != http.StatusUnauthorized || !strings.Contains(a.body, code.LoginRefused) ||
				a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("answered %d %v: %s", a.status, a.header, a.body)
			}
		})
	}
}

func TestARequestActsAsItsUserOverEachProtocol(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann, eve := s.user("ann", topology.Operator), s.user("eve", topology.Viewer)
	s.want(s.ask("POST", catalogPath+"CreateChannel", eve.Bearer(), `{"name":"staging"}`), http.StatusForbidden,
		code.Denied)
	s.want(s.ask("POST", catalogPath+"CreateChannel", ann.Bearer(), `{"name":"staging"}`, "Garrison-Dry-Run", "1"),
		http.StatusOK, "{}")
	s.want(s.ask("POST", catalogPath+"CreateChannel", ann.Bearer(), `{"name":"staging"}`, "Garrison-Note", "ticket 7"),
		http.StatusOK, "staging")
	s.want(s.ask("POST", catalogPath+"CreateChannel", ann.Bearer(), `{"name":"b","colour":"red"}`),
		http.StatusBadRequest, "colour")

	created := s.facts("channel", "staging")
	if len(created) != 1 || created[0].Actor != "ann" || created[0].Note != "ticket 7" {
		t.Errorf("the ledger has %+v, want one channel that ann created for ticket 7", created)
	}
	for name, o := range map[string][]connect.ClientOption{
		"Connect in protobuf": nil, "Connect in JSON": {connect.WithProtoJSON()}, "gRPC-Web": {connect.WithGRPCWeb()},
		"GET": {connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects)},
	} {
		ask := connect.NewClient[catalogv1.ListChannelsRequest, catalogv1.ListChannelsResponse](http.DefaultClient,
			s.url()+catalogPath+"ListChannels", o...)
		q := connect.NewRequest(&catalogv1.ListChannelsRequest{})
		q.Header().Set("Authorization", "Bearer "+eve.Bearer())
		r, err := ask.CallUnary(t.Context(), q)
		if err != nil || len(r.Msg.GetChannels()) < 2 {
			t.Errorf("over %s: %v (%v)", name, r, err)
		}
	}
}

func TestAnAnswerThatTheCallerHasIsNotSentAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := s.user("ann", topology.Operator).Bearer()
	const list = catalogPath + "ListChannels?encoding=json&message=%7B%7D"
	first := s.ask("GET", list, ann, "")
	s.want(first, http.StatusOK, "release")
	tag := first.header.Get("Etag")
	if tag == "" || first.header.Get("Cache-Control") != "private, no-cache" ||
		!strings.Contains(strings.Join(first.header.Values("Vary"), ","), "Authorization") {
		t.Errorf("the headers are %v, want a tag, and that a cache keeps it for this user alone", first.header)
	}
	s.want(s.ask("GET", list, ann, "", "If-None-Match", tag), http.StatusNotModified, "")
	s.want(s.ask("POST", catalogPath+"CreateChannel", ann, `{"name":"staging"}`), http.StatusOK, "staging")
	s.want(s.ask("GET", list, ann, "", "If-None-Match", tag), http.StatusOK, "staging")
	s.want(s.ask("GET", catalogPath+"CreateChannel?encoding=json&message=%7B%22name%22%3A%22x%22%7D", ann, ""),
		http.StatusMethodNotAllowed, "")
}

func TestAnIntentIsDecidedOnceUnderItsKey(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := s.user("ann", topology.Operator).Bearer()
	const key = "01a22924-a943-701d-a931-3e8b405a649c"
	refresh := func(server string) string {
		return fmt.Sprintf(`{"intent":{"refresh":{"on":{"servers":[%q]}}}}`, server)
	}
	first := s.ask("POST", intentPath, ann, refresh("web-1"), "Idempotency-Key", key)
	s.want(first, http.StatusBadRequest, code.UnknownServer)
	again := s.ask("POST", intentPath, ann, refresh("web-1"), "Idempotency-Key", strings.ToUpper(key))
	if again.body != first.body {
		t.Errorf("the second answer is %s, want %s", again.body, first.body)
	}
	s.want(s.ask("POST", intentPath, ann, refresh("web-2"), "Idempotency-Key", key), http.StatusConflict,
		"another intent")
	bob := s.user("bob", topology.Operator).Bearer()
	s.want(s.ask("POST", intentPath, bob, refresh("web-1"), "Idempotency-Key", key), http.StatusConflict,
		"another intent")
	s.want(s.ask("POST", intentPath, ann, refresh("web-1"), "Idempotency-Key", "7"), http.StatusBadRequest, "UUID")
	s.want(s.ask("POST", intentPath, ann, refresh("web-1"), "Garrison-Dry-Run", "1"), http.StatusBadRequest,
		"PlanIntent")
	s.want(s.ask("POST", intentPath, ann, `{}`), http.StatusBadRequest, "asks for nothing")
	if all := s.facts("intent", ""); len(all) != 1 {
		t.Errorf("%d facts about intents, want 1", len(all))
	}
}

func TestRequestsHaveBounds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := s.user("ann", topology.Operator).Bearer()
	large := fmt.Sprintf(`{"name":"x","description":%q}`, strings.Repeat("x", 1<<20))
	s.want(s.ask("POST", catalogPath+"CreateChannel", ann, large), http.StatusTooManyRequests, "resource_exhausted")
	for _, dry := range []string{"", "0", "no"} {
		s.want(s.ask("POST", catalogPath+"CreateChannel", ann, `{"name":"x"}`, "Garrison-Dry-Run", dry),
			http.StatusBadRequest, "must be 1")
	}
	s.want(s.ask("GET", "/events", s.user("vm", topology.Reporter).Bearer(), ""), http.StatusForbidden, code.Denied)
	s.want(s.ask("GET", "/events?after=yesterday", ann, ""), http.StatusBadRequest, "SEQUENCE")
	s.want(s.ask("GET", "/events?noun=weather", ann, ""), http.StatusBadRequest, "no noun")
	s.want(s.ask("GET", "/events?key=a", ann, ""), http.StatusBadRequest, "noun")
	s.want(s.ask("GET", "/events?since=1h", ann, ""), http.StatusBadRequest, "no parameter")
	s.want(s.ask("GET", "/nothing", ann, ""), http.StatusNotFound, "openapi.json")
	s.want(s.ask("GET", "/healthz", "", ""), http.StatusOK, "ok")
}

func TestConnectionsWithoutATokenTakeNoPlaceOfAUser(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	strangers := make([]net.Conn, 600)
	for i := range strangers {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := fmt.Fprint(c, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"); err != nil && i < 500 {
			t.Fatal(err)
		}
		strangers[i] = c
	}
	if _, err := io.Copy(io.Discard, strangers[0]); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the oldest stranger: %v, want the end of its connection", err)
	}
	ann := s.user("ann", topology.Viewer).Bearer()
	s.want(s.ask("POST", registryPath+"ListServers", ann, "{}"), http.StatusOK, "{}")
}

func TestOtherHostsAreServedWithTLSUnlessPlainIsAskedFor(t *testing.T) {
	t.Parallel()
	s := siteIn(t, t.TempDir(), allinone.HTTP{Listen: "0.0.0.0:0"})
	if !strings.HasPrefix(s.url(), "https://") {
		t.Errorf("served at %s, want https", s.url())
	}
	plain := siteIn(t, t.TempDir(), allinone.HTTP{Listen: "0.0.0.0:0", Plain: true})
	if !strings.HasPrefix(plain.url(), "http://") {
		t.Errorf("served at %s, want http", plain.url())
	}
}
