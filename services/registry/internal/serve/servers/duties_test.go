package servers

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/signing"
)

// late is a ledger in which another registry records something between a decision and its facts.
type late struct {
	*recordstest.World
	before func()
}

// Append implements decide.Writer.
func (l *late) Append(ctx context.Context, drafts ...ledger.Draft) (uint64, error) {
	if before := l.before; before != nil {
		l.before = nil
		before()
	}
	return l.World.Append(ctx, drafts...)
}

type anySigner struct{ signing.Signer }

func (anySigner) Tombstone(string, string, time.Time) (*serverv1.Tombstone, error) {
	return &serverv1.Tombstone{}, nil
}

// dying returns a server that is dying, on which an agent was that is deleted since.
func dying(t *testing.T) (l *late, d *Duties, server string) {
	t.Helper()
	w := recordstest.New(t)
	server = w.Server("one", "")
	for _, agent := range []string{"old", "web"} {
		w.Agent(agent)
		w.Image(agent, "1.0.0")
	}
	w.Accept(topology.VerbInstall, recordstest.Install("old", recordstest.On("one")))
	w.Work(nil)
	w.Accept(topology.VerbRemove, &intentv1.Intent{Ask: &intentv1.Intent_Remove{
		Remove: &intentv1.Remove{Agent: "old", On: recordstest.On("one")},
	}})
	w.Work(nil)
	w.Fact(ledger.Agent, "old", &agentv1.Deleted{})
	w.Fact(ledger.Server, server, &serverv1.Dying{})
	l = &late{World: w}
	r := *w.Records
	r.Decider = decide.New(decide.Config{
		Service: ledger.Registry, Ledger: w, View: w, Writer: l, Now: func() time.Time { return w.At },
	})
	return l, NewDuties(&r, signing.Tombstones{Signer: anySigner{}}, zerolog.Nop()), server
}

func TestAnInstanceThatIsAddedBeforeADeathIsRecordedDefeatsIt(t *testing.T) {
	t.Parallel()
	l, d, server := dying(t)
	key := ledger.Key(server, "web")
	l.before = func() {
		image := &imagev1.Ref{Id: "web-1.0.0"}
		l.Fact(ledger.Instance, key, &instancev1.Wanted{InstanceId: "i", Generation: 1, Image: image})
	}
	if err := d.do(t.Context(), server); !fault.Is(err, fault.Conflict) {
		t.Errorf("the death: %v, want a conflict", err)
	}
	if err := d.do(t.Context(), server); err != nil { // on what is there now
		t.Error(err)
	}
	if have := l.Names(ledger.Server, server); slices.Contains(have, "dead") {
		t.Errorf("facts of the server: %v", have)
	}
	if want, have := []string{"wanted", "unwanted"}, l.Names(ledger.Instance, key); !slices.Equal(have, want) {
		t.Errorf("facts of the instance: %v, want %v", have, want)
	}
}

func TestADeathIsRecordedWhenNothingHappenedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*late, string){
		"nothing at all": func(*late, string) {},
		"elsewhere":      func(l *late, _ string) { l.Server("two", "") },
	} {
		l, d, server := dying(t)
		l.before = func() { before(l, server) }
		if err := d.do(t.Context(), server); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if have := l.Names(ledger.Server, server); have[len(have)-1] != "dead" {
			t.Errorf("%s: %v", name, have)
		}
	}
}
