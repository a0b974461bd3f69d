package allinone_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

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
	for _, want := range []string{
		`"server": "web-1"`, `"server": "web-3"`, "server web-1: invited, web-1 in cell main",
	} {
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
	b := allinone.Backup{Data: h.data, File: file, Log: io.Discard}
	if err := allinone.WriteBackup(t.Context(), b); err != nil {
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
		r := allinone.Restoring{File: file, Data: h.data, Log: io.Discard}
		if err := allinone.Restore(t.Context(), r); err != nil {
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
		if n <= 4 { // two facts, twice
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
	if _, err := h.command(t, "--resend", "ops"); err == nil ||
		strings.Count(err.Error(), "the target refuses the content") != 2 {
		t.Errorf("a target that refuses both again: %v", err)
	}
	in.next(t)
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
