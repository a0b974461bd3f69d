package allinone_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/gateway"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"
)

// receiver is a target of webhooks, which answers as its test says.
type receiver struct {
	*httptest.Server
	got chan delivery
}

// delivery is a request that a receiver got.
type delivery struct {
	header http.Header
	body   []byte
}

// newReceiver returns a receiver. Without an answer it takes everything.
func newReceiver(t *testing.T, answers func(w http.ResponseWriter, n int)) *receiver {
	t.Helper()
	r, n := &receiver{got: make(chan delivery, 1000)}, 0
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		n++ // a route has one request at a time
		if answers != nil {
			answers(w, n)
		}
		r.got <- delivery{q.Header, body}
	}))
	t.Cleanup(r.Close)
	return r
}

// next returns the next delivery.
func (r *receiver) next(t *testing.T) delivery {
	t.Helper()
	select {
	case d := <-r.got:
		return d
	case <-time.After(time.Minute):
		t.Fatal("no delivery within a minute")
		return delivery{}
	}
}

// subject returns the subject of a delivery that is a structured CloudEvent.
func (d delivery) subject() string {
	var e struct{ Subject string }
	_ = json.Unmarshal(d.body, &e)
	return e.Subject
}

// hooked is a directory with the user hooks of a Garrison, and a file of webhooks.
type hooked struct{ data, file string }

// prepare makes the user, and writes the routes.
func prepare(t *testing.T, routes string) hooked {
	t.Helper()
	h := hooked{data: t.TempDir(), file: filepath.Join(t.TempDir(), "webhooks.yaml")}
	s := siteIn(t, h.data, allinone.HTTP{Listen: "127.0.0.1:0"})
	who := s.user("hooks", topology.Viewer)
	admin := s.client(s.user("root", topology.Admin))
	r, err := client.Call[*accessv1.CreateUserResponse](t.Context(), admin, &accessv1.CreateUserRequest{
		Name: "hooks", Role: userv1.Role_ROLE_VIEWER, PublicKey: who.PublicKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	at, err := trust.ReadContext(s.ContextFile())
	if err != nil {
		t.Fatal(err)
	}
	who.JWT, who.CA = r.GetJwt(), at.CA
	if err := who.Write(filepath.Join(filepath.Dir(h.file), "hooks.json")); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.Close()
	h.write(t, routes)
	return h
}

// write writes the routes.
func (h hooked) write(t *testing.T, routes string) {
	t.Helper()
	if err := os.WriteFile(h.file, []byte("as: hooks.json\nroutes:\n"+routes), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start starts a Garrison with the webhooks.
func (h hooked) start(t *testing.T) *site {
	t.Helper()
	return siteIn(t, h.data, allinone.HTTP{Listen: "127.0.0.1:0", Webhooks: h.file})
}

// metrics returns what is measured.
func (s *site) metrics(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.Handler(s.measured).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// stop stops it.
func (h hooked) stop(s *site) { s.stop(); s.Close() }

// channel creates a channel, which is one fact.
func (s *site) channel(name string) {
	s.Helper()
	c := s.client(s.user("ann", topology.Operator))
	if _, err := client.Call[*catalogv1.CreateChannelResponse](s.Context(), c,
		&catalogv1.CreateChannelRequest{Name: name}); err != nil {
		s.Fatal(err)
	}
}

// waitFollowing waits until a route has a place, so that later facts are new to it.
func (h hooked) waitFollowing(t *testing.T, route string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(h.data, "webhooks", route+".json")); err == nil {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the route has no place within a minute")
		}
	}
}

// command runs the command webhooks.
func (h hooked) command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var c gateway.WebhookCommand
	flags := flag.NewFlagSet("webhooks", flag.ContinueOnError)
	c.Define(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := c.Run(t.Context(), allinone.WebhooksOf(h.data, h.file), &out)
	return out.String(), err
}

// verify checks a delivery as the specification of Standard Webhooks says, with public keys as they are printed.
func verify(d delivery, public ...string) error {
	id, stamp := d.header.Get("webhook-id"), d.header.Get("webhook-timestamp")
	at, err := strconv.ParseInt(stamp, 10, 64)
	if age := time.Since(time.Unix(at, 0)); err != nil || age > 5*time.Minute || age < -5*time.Minute {
		return fmt.Errorf("the timestamp %q", stamp)
	}
	if id == "" || strings.Contains(id, ".") {
		return fmt.Errorf("the id %q", id)
	}
	for _, key := range public {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whpk_"))
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return fmt.Errorf("the key %q", key)
		}
		for part := range strings.SplitSeq(d.header.Get("webhook-signature"), " ") {
			kind, text, _ := strings.Cut(part, ",")
			signature, err := base64.StdEncoding.DecodeString(text)
			if kind == "v1a" && err == nil &&
				ed25519.Verify(raw, fmt.Appendf(nil, "%s.%s.%s", id, stamp, d.body), signature) {
				return nil
			}
		}
	}
	return fmt.Errorf("no signature of %v in %q", public, d.header.Get("webhook-signature"))
}

var printedKey = regexp.MustCompile(`whpk_\S+`)

func TestAWebhookDeliversEachFactSignedAlsoAcrossRestarts(t *testing.T) {
	t.Parallel()
	in := newReceiver(t, nil)
	h := prepare(t, "  - {name: ops, url: "+in.URL+", noun: channel, fact: created, allow: [127.0.0.0/8]}\n")
	s := h.start(t)
	h.waitFollowing(t, "ops")
	s.channel("a")
	first := in.next(t)
	h.stop(s)
	s = siteIn(t, h.data, allinone.HTTP{Listen: "127.0.0.1:0"}) // without webhooks
	s.channel("b")
	s.channel("c")
	h.stop(s)
	s = h.start(t)
	s.channel("d")
	listed, err := h.command(t)
	if err != nil {
		t.Fatal(err)
	}
	key := printedKey.FindString(listed)
	ids := map[string]bool{}
	for i, d := range []delivery{first, in.next(t), in.next(t), in.next(t)} {
		if want := "channel/" + string(rune('a'+i)); d.subject() != want {
			t.Errorf("delivery %d is about %s, want %s", i, d.subject(), want)
		}
		if err := verify(d, key); err != nil {
			t.Errorf("delivery %d: %v", i, err)
		}
		ids[d.header.Get("webhook-id")] = true
	}
	if len(ids) != 4 {
		t.Errorf("%d ids of 4 deliveries", len(ids))
	}
}

// invite invites a server, which is one fact.
func (s *site) invite(name string, labels map[string]string) {
	s.Helper()
	c := s.client(s.user("root", topology.Admin))
	if _, err := client.Call[*registryv1.InviteServerResponse](s.Context(), c,
		&registryv1.InviteServerRequest{Name: name, Labels: labels}); err != nil {
		s.Fatal(err)
	}
}

func TestAWebhookSelectsServersAsTheCLIDoes(t *testing.T) {
	t.Parallel()
	byLabel, byName := newReceiver(t, nil), newReceiver(t, nil)
	h := prepare(t, `  - name: by-label
    url: `+byLabel.URL+`
    allow: [127.0.0.1/32]
    noun: server
    on: [tier=front]
    body: '{"server": {{json .Server}}, "says": {{json .Sentence}}, "link": {{json .Link}}}'
  - {name: by-name, url: `+byName.URL+`, allow: 127.0.0.1/32, id: web-2, format: binary}
`)
	s := h.start(t)
	h.waitFollowing(t, "by-label")
	h.waitFollowing(t, "by-name")
	for name, tier := range map[string]string{"web-1": "front", "web-2": "back"} {
		s.invite(name, map[string]string{"tier": tier})
	}
	s.invite("web-3", map[string]string{"tier": "front"})
	got := string(byLabel.next(t).body) + string(byLabel.next(t).body)
	for _, want := range []string{`"server": "web-1"`, `"server": "web-3"`, "server web-1: invited, web-1 in cell main"} {
		if !strings.Contains(got, want) {
			t.Errorf("by label: %s, want %s", got, want)
		}
	}
	d := byName.next(t)
	if d.header.Get("ce-garrisonserver") != "web-2" || d.header.Get("ce-type") != "garrison.server.v1.Invited" ||
		!json.Valid(d.body) {
		t.Errorf("by name: %v %s", d.header, d.body)
	}
	s.invite("web-4", map[string]string{"tier": "front"})
	if got := string(byLabel.next(t).body); !strings.Contains(got, "web-4") || len(byName.got) != 0 {
		t.Errorf("then %s by label, and %d by name; want web-4 and none", got, len(byName.got))
	}
}

func TestWebhooksContinueInARestoredLedgerWithTheirKeys(t *testing.T) {
	t.Parallel()
	in := newReceiver(t, nil)
	h := prepare(t, "  - {name: ops, url: "+in.URL+", noun: channel, allow: [127.0.0.0/8]}\n")
	s := h.start(t)
	h.waitFollowing(t, "ops")
	s.channel("a")
	in.next(t)
	key, err := h.command(t)
	if err != nil {
		t.Fatal(err)
	}
	key = printedKey.FindString(key)
	file := filepath.Join(t.TempDir(), "backup")
	if err := allinone.WriteBackup(t.Context(), allinone.Backup{Data: h.data, File: file, Log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	s.channel("lost")
	in.next(t)
	h.stop(s)
	newer, err := os.ReadFile(filepath.Join(h.data, "webhooks", "ops.json"))
	if err != nil {
		t.Fatal(err)
	}

	// The first restore has the place of the backup, the second one that of a fact which its ledger lacks.
	for i, place := range [][]byte{nil, newer} {
		h.data = filepath.Join(t.TempDir(), "data")
		if err := allinone.Restore(t.Context(), allinone.Restoring{File: file, Data: h.data, Log: io.Discard}); err != nil {
			t.Fatal(err)
		}
		if place != nil {
			if err := os.WriteFile(filepath.Join(h.data, "webhooks", "ops.json"), place, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s = h.start(t)
		s.channel("later")
		d := in.next(t)
		for d.subject() == "channel/a" { // its delivery may be newer than the place in the backup
			d = in.next(t)
		}
		if err := verify(d, key); err != nil || d.subject() != "channel/later" {
			t.Errorf("restore %d: a delivery about %s, %v; want channel/later, signed as before", i, d.subject(), err)
		}
		h.stop(s)
		listed, err := h.command(t)
		if err != nil || strings.Contains(listed, "reset") != (place != nil) {
			t.Errorf("restore %d: listed %s, %v", i, listed, err)
		}
	}
}

func TestAKeyIsRotatedWithoutADeliveryThatReceiversRefuse(t *testing.T) {
	t.Parallel()
	in := newReceiver(t, nil)
	h := prepare(t, "  - {name: ops, url: "+in.URL+", allow: [127.0.0.0/8]}\n")
	keys := func(args ...string) []string {
		t.Helper()
		printed, err := h.command(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		return printedKey.FindAllString(printed, -1)
	}
	test := func() delivery {
		t.Helper()
		if _, err := h.command(t, "--test", "ops"); err != nil {
			t.Fatal(err)
		}
		return in.next(t)
	}
	_ = h.start(t)
	first := keys()[0]
	second := keys("--rotate-key")[0]
	for name, key := range map[string]string{"before": first, "new": second} {
		if err := verify(test(), key); err != nil {
			t.Errorf("a receiver with the key %s: %v", name, err)
		}
	}
	third := keys("--rotate-key")[0]
	d := test()
	if verify(d, second) != nil || verify(d, third) != nil || verify(d, first) == nil {
		t.Error("after two rotations the first key still signs, or the others do not")
	}
	d.body = append(d.body, ' ')
	if verify(d, second) == nil {
		t.Error("a body that was changed passes")
	}
}

func TestDeadLettersAreListedAndSentAgain(t *testing.T) {
	t.Parallel()
	in := newReceiver(t, func(w http.ResponseWriter, n int) {
		if n <= 3 { // two facts, and the first of them again
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	h := prepare(t, "  - {name: ops, url: "+in.URL+", noun: channel, allow: [127.0.0.0/8]}\n")
	s := h.start(t)
	h.waitFollowing(t, "ops")
	s.channel("a")
	s.channel("b")
	first := in.next(t)
	in.next(t)
	polltest.Succeeds(t, "both are dead letters", func() error {
		listed, err := h.command(t, "--dead", "ops")
		if strings.Count(listed, "channel created") != 2 || !strings.Contains(listed, "HTTP 400") {
			return fmt.Errorf("listed %s, %w", listed, err)
		}
		return nil
	})
	if _, err := h.command(t, "--resend", "ops"); err == nil || !strings.Contains(err.Error(), "0 of 2") {
		t.Errorf("a target that refuses again: %v", err)
	}
	in.next(t)
	if out, err := h.command(t, "--resend", "ops"); err != nil || strings.Count(out, "took") != 2 {
		t.Errorf("sent again: %s, %v", out, err)
	}
	if again := in.next(t); again.header.Get("webhook-id") != first.header.Get("webhook-id") {
		t.Error("sent again with another id")
	}
	if listed, err := h.command(t, "--dead", "ops"); err != nil || strings.Contains(listed, "channel") {
		t.Errorf("afterwards: %s, %v", listed, err)
	}
	if _, err := h.command(t, "--dead", "obs"); fault.RefusalOf(err).GetNearest() != "ops" {
		t.Errorf("a route that is not there: %v, want the nearest", err)
	}
}

func TestAWebhookReadsWhatItsUserMayReadAndNoMore(t *testing.T) {
	t.Parallel()
	in := newReceiver(t, nil)
	h := prepare(t, "  - {name: ops, url: "+in.URL+", noun: channel, allow: [127.0.0.0/8]}\n")
	s := h.start(t)
	h.waitFollowing(t, "ops")
	root := s.client(s.user("root", topology.Admin))
	if _, err := client.Call[*accessv1.RevokeUserResponse](t.Context(), root,
		&accessv1.RevokeUserRequest{Name: "hooks"}); err != nil {
		t.Fatal(err)
	}
	measured := func() string { return strings.Join(strings.Fields(s.metrics(t)), " ") }
	polltest.Succeeds(t, "the route is cut off", func() error {
		s.channel("c" + ident.Short(ident.New()))
		if !strings.Contains(measured(), `route="ops",service="gateway",state="cut-off"`) {
			return errors.New("it is not")
		}
		return nil
	})
}
