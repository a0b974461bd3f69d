package rollouts

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

// A client waits for bus.DefaultTimeout.
func TestAForecastIsOverBeforeItsClientGivesUp(t *testing.T) {
	if outlookWithin > bus.DefaultTimeout/2 {
		t.Errorf("a forecast may take %s; clients give up after %s", outlookWithin, bus.DefaultTimeout)
	}
}

func TestWhatKeptAServerFromJoiningMayEndWithAFactAboutAnInstanceOrARollout(t *testing.T) {
	w := NewWork(&records.Records{Now: time.Now}, nil, nil, zerolog.Nop())
	for _, noun := range []ledger.Noun{ledger.Instance, ledger.Intent, ledger.Rollout, ledger.Server} {
		before := w.moved.Load()
		if w.NoteFacts([]ledger.Fact{{Noun: noun}}); w.moved.Load() == before {
			t.Errorf("after a fact about %s no server is looked for", noun)
		}
	}
}
