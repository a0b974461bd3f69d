package allinone_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
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

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/gateway"
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
	polltest.Succeeds(t, route+" has a place", func() error {
		_, err := os.Stat(filepath.Join(h.data, "webhooks", route+".json"))
		return err
	})
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
