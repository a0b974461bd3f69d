package view

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// A document is one message, and the bus takes 1 MiB. What would not fit is refused before
// it is placed: a document that cannot be written would keep everything from its server,
// removals too. The reckoning errs upwards: an entry counts as the larger of what it is
// and what an undo brings back.
const (
	// CodeServerFull ends a task for which its server's document has no room.
	CodeServerFull = "SERVER_FULL"
	// MaxDocument leaves 64 KiB of a message for labels, requests and headers.
	MaxDocument = 960 << 10
	// entryRest is what an entry has beside its image and metadata: ids, a deadline, dependencies.
	entryRest = 1 << 10
)

// room is what documents have room for while tasks are admitted together.
type room struct {
	view  *View
	taken map[string]int // by server: what its document would have
}

func (v *View) newRoom() *room { return &room{view: v, taken: map[string]int{}} }

// take makes room for what a task brings, or says how the task ends when there is none.
func (m *room) take(r *dispatcherv1.TaskRecord) *taskv1.Cancelled {
	t := r.GetTask()
	if t.GetTo() == nil {
		return nil // what goes, and what is only asked, is small
	}
	taken, ok := m.taken[t.ServerId]
	if !ok {
		for _, i := range m.view.instanceOf[t.ServerId] {
			taken += m.view.entryBytes(i)
		}
	}
	now := 0
	if i, ok := m.view.instances.Get(ledger.Key(t.ServerId, t.Agent)); ok {
		now = m.view.entryBytes(i)
	}
	grows := max(m.view.bytesOf(t.To, r.Configuration)-now, 0)
	would := taken + grows
	if would > MaxDocument && grows > 0 { // what makes a document smaller that is too large already is no reason
		m.taken[t.ServerId] = taken
		return &taskv1.Cancelled{Code: CodeServerFull, Reason: fmt.Sprintf(
			"with it the server's document would have %d bytes; %d are the most, for all agents' images and metadata together", would, MaxDocument)}
	}
	m.taken[t.ServerId] = would
	return nil
}

// entryBytes reckons what an instance takes of its server's document, now and after an undo.
func (v *View) entryBytes(i *dispatcherv1.InstanceRecord) int {
	n := v.bytesOf(i.Placed, i.PlacedConfiguration)
	if i.Unsettled {
		n = max(n, v.bytesOf(i.Before, i.BeforeConfiguration))
	}
	return n
}

func (v *View) bytesOf(image *imagev1.Ref, c *instancev1.Configuration) int {
	if image == nil {
		return 0
	}
	n := entryRest + proto.Size(v.manifest(image.GetId()))
	for k, value := range c.GetMetadata() {
		n += len(k) + len(value) + 8 // the tags and lengths of a pair
	}
	return n
}
