package intent_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/hold"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

func reinstallOf(server, id string) intent.Ask {
	return intent.Ask{
		ID: ident.From(id), Actor: "alice", Verb: "reinstall", At: time.Unix(99, 0),
		Intent: &intentv1.Intent{Ask: &intentv1.Intent_Reinstall{Reinstall: &intentv1.Reinstall{Server: server}}},
	}
}

// record folds the changes of a decision and returns the names of its facts.
func (w *world) record(d intent.Decision) (out []string) {
	for _, draft := range d.Drafts {
		w.apply(draft.Noun, draft.Key, draft.Body)
		out = append(out, string(draft.Noun)+" "+draft.Name())
	}
	return out
}

func TestAReinstallUnwantsEveryInstanceInOneStep(t *testing.T) {
	w := fleet(2)
	w.record(intent.Decide(w, installAll()))
	first := w.record(intent.Decide(w, reinstallOf("s0", "first")))
	want := []string{"server reinstalling", "instance unwanted", "intent accepted"}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	if again := intent.Decide(w, reinstallOf("s0", "again")); again.Refusal != nil || again.Changed != 0 {
		t.Errorf("asked again: refusal %v, changed %d; want nothing", again.Refusal, again.Changed)
	}

	install := installAll()
	install.ID = ident.From("install")
	d := intent.Decide(w, install)
	reasons := d.Drafts[len(d.Drafts)-1].Body.(*intentv1.Accepted).Reasons
	if len(d.Drafts) != 1 || len(reasons) != 1 || reasons[0].Code != "SERVER_REINSTALLING" {
		t.Errorf("an install meanwhile: %d drafts, %v; want the server left out", len(d.Drafts), reasons)
	}
}

func TestAReinstallWaitsForTheEndOfAPauseAndForNoHoldOfAnAgent(t *testing.T) {
	site := hold.ID("", hold.Site())
	until := func(at int64) *holdv1.Hold {
		return &holdv1.Hold{On: hold.Site(), Until: timestamppb.New(time.Unix(at, 0))}
	}
	for name, c := range map[string]struct {
		id   string
		hold *holdv1.Hold
		want string
	}{
		"a pause of the site":   {site, until(100), code.Held},
		"one whose time passed": {site, until(99), ""},
		"a hold of an agent":    {"h", &holdv1.Hold{Agent: "web", On: everywhere}, ""},
	} {
		w := running(t, 1)
		w.apply(ledger.Hold, c.id, c.hold)
		d := intent.Decide(w, reinstallOf("s0", "first"))
		if d.Refusal.GetCode() != c.want || (d.Changed == 1) != (c.want == "") {
			t.Errorf("%s: %v, changed %d; want %q", name, d.Refusal, d.Changed, c.want)
		}
	}
}

func TestAReinstallIsRefused(t *testing.T) {
	dying := func(w *world, id string) { w.apply(ledger.Server, id, &serverv1.Dying{}) }
	dead := func(w *world, id string) { w.apply(ledger.Server, id, &serverv1.Dead{}) }
	for name, c := range map[string]struct {
		server string
		before func(*world, string)
		want   string
	}{
		"of a server that is unknown":    {"s9", nil, "UNKNOWN_SERVER"},
		"without a server":               {"", nil, "EMPTY_SELECTOR"},
		"of a server that is dying":      {"s0", dying, "NOT_ALIVE"},
		"of a server that is dead":       {"s0", dead, "UNKNOWN_SERVER"},
		"of a server that did not enrol": {"invited", nil, "NOT_ALIVE"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fleet(1)
			w.apply(ledger.Server, ident.From("invited"), &serverv1.Invited{Name: "invited", Cell: "main"})
			if c.before != nil {
				c.before(w, ident.From("server", "0"))
			}
			if have := intent.Decide(w, reinstallOf(c.server, name)).Refusal.GetCode(); have != c.want {
				t.Errorf("%q, want %q", have, c.want)
			}
		})
	}
}
