package view

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/secret"
)

// A document is one message, and a message of the bus has at most 1 MiB. A change that would not fit is
// refused before it is placed: a document that cannot be written would withhold everything from its
// server, removals too. The estimate errs upwards: an entry counts as the larger of what it is and
// what a rollback restores.
const (
	// MaxDocument leaves 64 KiB of a message for labels, requests and headers.
	MaxDocument = 960 << 10
	// entryOverhead is the size of an entry beside its image and metadata: ids, deadline, dependencies.
	entryOverhead = 1 << 10
)

// room tracks the sizes of documents while tasks are admitted together.
type room struct {
	images      *images
	instancesOf map[string]map[string]*dispatcherv1.InstanceRecord // by server and agent
	ahead       func(server string) int                            // what it fetches ahead takes
	taken       map[string]int                                     // by server: the size that its document would have
}

// take takes the room that a task needs, or returns the fact that ends a task without room.
func (m *room) take(r *dispatcherv1.TaskRecord) *taskv1.Cancelled {
	t := r.GetTask()
	if t.GetAhead() != nil {
		return m.takeAhead(t)
	}
	if t.GetTo() == nil {
		return nil // removals and refreshes are small
	}
	taken := m.takenOn(t.ServerId)
	now := 0
	if i, ok := m.instancesOf[t.ServerId][t.Agent]; ok {
		now = m.entryBytes(i)
	}
	grows := max(m.bytesOf(t.To, r.Configuration)-now, 0)
	would := taken + grows
	if would > MaxDocument && grows > 0 { // a change that shrinks an oversized document is admitted
		m.taken[t.ServerId] = taken
		return &taskv1.Cancelled{Code: code.ServerFull, Reason: fmt.Sprintf(
			"with it the server's document would have %d bytes; %d are the most, "+
				"for all agents' images and metadata together", would, MaxDocument)}
	}
	m.taken[t.ServerId] = would
	return nil
}

// takenOn returns the size that a server's document would have with what was admitted, without what is fetched ahead:
// that makes way for changes.
func (m *room) takenOn(server string) int {
	taken, ok := m.taken[server]
	if !ok {
		for _, i := range m.instancesOf[server] {
			taken += m.entryBytes(i)
		}
	}
	return taken
}

// entryBytes estimates the size of an instance's entry, now and after a rollback.
func (m *room) entryBytes(i *dispatcherv1.InstanceRecord) int {
	n := m.bytesOf(i.Placed, i.PlacedConfiguration)
	if i.Unsettled {
		n = max(n, m.bytesOf(i.Before, i.BeforeConfiguration))
	}
	return n
}

func (m *room) bytesOf(image *imagev1.Ref, c *instancev1.Configuration) int {
	if image == nil {
		return 0
	}
	n := entryOverhead + proto.Size(m.images.manifest(image.GetId()))
	for k, value := range c.GetMetadata() {
		n += len(k) + len(value) + 8 // with the tags and lengths of the pair
		if secret.IsSealed(value) {
			n += len(k) + len(value) + 8 // and once more in clear, which is shorter
		}
	}
	return n
}
