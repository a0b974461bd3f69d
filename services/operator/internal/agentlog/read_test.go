package agentlog

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

const whole = "one\ntwo\nthree\n"

// keeper stands for the registry and for a server whose sessions end after some parts of four bytes.
type keeper struct {
	mu     sync.Mutex
	parts  int // of one session
	left   int
	opened []uint64 // where sessions began
}

func (k *keeper) open(
	_ context.Context, _ bus.Caller, q *registryv1.OpenLogRequest,
) (*registryv1.OpenLogResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.opened = k.parts, append(k.opened, q.GetStart().GetPosition())
	return &registryv1.OpenLogResponse{
		Cell: "main", ServerId: ident.New(), ServerName: "web-1", SessionId: ident.New(),
		Position: q.GetStart().GetPosition(), End: uint64(len(whole)),
	}, nil
}

func (k *keeper) read(_ context.Context, _ string, q *logv1.ReadRequest) (*logv1.ReadResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left--; k.left < 0 {
		return nil, fault.Refusef(fault.NotFound, code.LogNotOpen, "ended")
	}
	data := whole[q.GetPosition():min(int(q.GetPosition())+4, len(whole))]
	return &logv1.ReadResponse{Data: []byte(data), Position: q.GetPosition() + uint64(len(data))}, nil
}

// reads reads everything that a server keeps whose sessions end after some parts.
func reads(t *testing.T, parts int) (k *keeper, out string, err error) {
	t.Helper()
	b := bustest.Start(t)
	s, err := b.Dial(t, ledger.Registry).NewService(ledger.Registry, "v1.0.0", client.Services[ledger.Registry])
	if err != nil {
		t.Fatal(err)
	}
	k = &keeper{parts: parts}
	if err := bus.Handle(s, "OpenLog", k.open); err != nil {
		t.Fatal(err)
	}
	stop, err := bus.Answer(b.Dial(t, "server"), topology.LogReadSubjects, "", k.read)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var to bytes.Buffer
	env := cli.NewEnv(strings.NewReader(""), &to, &bytes.Buffer{}, func(string) string { return "" })
	c, q := client.New(b.Dial(t, "ann"), 0), &registryv1.OpenLogRequest{Server: "web-1", Agent: "beacon"}
	l, err := c.OpenLog(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	err = readKept(t.Context(), env, c, q, l, newPrinter(env, logFlags{}))
	return k, to.String(), err
}

func TestAReadingGoesOnInAnotherSession(t *testing.T) {
	k, out, err := reads(t, 2)
	if err != nil || out != whole || len(k.opened) != 2 || k.opened[1] != 8 {
		t.Errorf("%q, sessions from %v, %v", out, k.opened, err)
	}
}

func TestAServerWhoseSessionsEndAtOnceIsNotAskedForEver(t *testing.T) {
	k, _, err := reads(t, 0)
	if fault.RefusalOf(err).GetCode() != code.LogNotOpen || len(k.opened) != 1 {
		t.Errorf("%d sessions, %v", len(k.opened), err)
	}
}
