package executor_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// refusal returns what the registry says of a server's beats.
func (h *host) refusal(server, code string) []byte {
	h.t.Helper()
	data, err := proto.Marshal(&reportv1.BeatAnswer{
		ServerId: server, Refusal: &apiv1.Refusal{Code: code, Message: "the particulars"},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return data
}

// refuse publishes a refusal of a server's beats, to this one.
func (h *host) refuse(by *bus.Conn, server, code string) {
	h.t.Helper()
	if err := by.Publish(topology.AnswerSubject(h.who.Address()), h.refusal(server, code)); err != nil {
		h.t.Fatal(err)
	}
}

// refusing refuses the beats of the server until it shows that.
func (h *host) refusing(by *bus.Conn, code, state, shown string) (s status.Status) {
	h.t.Helper()
	h.eventually("it shows that its beats are refused with "+code, func() bool {
		h.refuse(by, h.who.ServerID, code)
		s, _ = status.Read(string(h.root))
		return s.State == state && s.Code == shown && strings.Contains(s.Reason, code+", the particulars")
	})
	return s
}

func TestAServerWhoseBeatsAreRefusedSaysSoUntilTheyCount(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	registry := h.g.Service(t, topology.UserRegistry)
	h.run(h.config())
	h.alive()
	h.applies(1)
	h.refuse(registry, here.Server, "SERVER_REMOVED") // of another server; it would outlast the next one
	for _, c := range [][2]string{
		{"UNKNOWN_SERVER", "UNKNOWN_SERVER"}, {"NOT_ENROLLED", "UNKNOWN_SERVER"}, {"STILL_RUNS", "STILL_RUNS"},
	} {
		s := h.refusing(registry, c[0], status.Suspended, c[1])
		if s.Healthy(time.Now()) == nil || !s.Connected {
			t.Errorf("refused with %s it is healthy, or not connected: %+v", c[0], s)
		}
	}
	h.applies(1)
}

func TestARemovedServerKnowsThatApartFromOneThatIsDenied(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	h.run(h.config())
	h.alive()
	h.applies(1)
	registry := h.g.Service(t, topology.UserRegistry)
	h.refusing(registry, "SERVER_REMOVED", status.Suspended, "SERVER_REMOVED")
	h.refuse(registry, h.who.ServerID, "UNKNOWN_SERVER")
	h.g.Revoke(t, h.who.PublicKey)
	h.eventually("it is cut off and says that it is removed", func() bool {
		s, err := status.Read(string(h.root))
		return err == nil && !s.Connected && s.Code == "SERVER_REMOVED"
	})
}

func TestADeadServerThatIsCutOffKnowsThatItIsRemoved(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Provisioned)
	h.run(h.config())
	h.dead(h.proof(h.who.ServerID))
	h.state(status.Resting, "PROVISIONED")
	h.refusing(h.g.Service(t, topology.UserRegistry), "STILL_RUNS", status.Resting, "PROVISIONED")
	h.g.Revoke(t, h.who.PublicKey)
	h.state(status.Suspended, "SERVER_REMOVED")
}

// Only the registry refuses beats: what others publish would outlast its refusal.
func TestNoOtherServerRefusesBeats(t *testing.T) {
	t.Parallel()
	h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
	h.run(h.config())
	h.alive()
	h.applies(1)
	other := h.g.Raw(t, here.Server, here.Cell)
	data := h.refusal(h.who.ServerID, "SERVER_REMOVED")
	if err := errors.Join(other.Publish(topology.AnswerSubject(h.who.Address()), data), other.Flush()); err != nil {
		t.Fatal(err)
	}
	h.refusing(h.g.Service(t, topology.UserRegistry), "UNKNOWN_SERVER", status.Suspended, "UNKNOWN_SERVER")
}
