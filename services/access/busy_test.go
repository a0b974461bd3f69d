package access

import (
	"slices"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestOnlyAnAccountThatSendsMoreThanOneKeyMayIsLookedAt(t *testing.T) {
	t.Parallel()
	s := newFloods(Config{}, nil, nil)
	nodes, ops := topology.AccountNodes, topology.AccountOps
	at := time.Now()
	for _, step := range []struct {
		name       string
		nodes, ops bus.AccountUse
		after      time.Duration
		want       []string
	}{
		{"the first look, at a bus that runs for long", bus.AccountUse{Messages: 1e9, Bytes: 1e12},
			bus.AccountUse{Messages: 1e9}, time.Second, nil},
		{"as much as one key may", bus.AccountUse{Messages: 1e9 + mostMessages, Bytes: 1e12},
			bus.AccountUse{Messages: 1e9 + mostOfPerson}, time.Second, nil},
		{"more messages of servers", bus.AccountUse{Messages: 1e9 + 2*mostMessages + 1, Bytes: 1e12},
			bus.AccountUse{Messages: 1e9 + mostOfPerson}, time.Second, []string{nodes}},
		{"more bytes of servers, more messages of people",
			bus.AccountUse{Messages: 1e9 + 2*mostMessages + 1, Bytes: 1e12 + mostBytes + 1},
			bus.AccountUse{Messages: 1e9 + 2*mostOfPerson + 1}, time.Second, []string{nodes, ops}},
		{"as many in a second, of several", bus.AccountUse{Messages: 1e9 + 4*mostMessages, Bytes: 1e12 + mostBytes + 1},
			bus.AccountUse{Messages: 1e9 + 2*mostOfPerson + 1}, 2 * time.Second, nil},
		{"a fleet that beats", bus.AccountUse{
			Messages: 1e9 + 4*mostMessages + mostMessages + 4_000, Bytes: 1e12 + mostBytes + 1, Connections: 10_000,
		}, bus.AccountUse{Messages: 1e9 + 2*mostOfPerson + 1}, time.Second, nil},
		{"a fleet that beats, and a key that sends too much", bus.AccountUse{
			Messages: 1e9 + 4*mostMessages + 3*mostMessages + 10_000, Bytes: 1e12 + mostBytes + 1, Connections: 10_000,
		}, bus.AccountUse{Messages: 1e9 + 2*mostOfPerson + 1}, time.Second, []string{nodes}},
		{"the bus started again", bus.AccountUse{}, bus.AccountUse{}, time.Second, nil},
	} {
		at = at.Add(step.after)
		got := s.busy(map[string]bus.AccountUse{nodes: step.nodes, ops: step.ops}, at)
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
	}
}
