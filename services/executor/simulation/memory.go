package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
)

// endedKept is how many ended tasks a server remembers.
const endedKept = 256

// outboxLimit is how many reports wait at most, as in the executor's journal; the oldest is dropped first.
const outboxLimit = 1000

// memory is what a simulated server keeps instead of a journal, a disk and processes.
type memory struct {
	JournalID string               `json:"journal_id"`
	Reports   uint64               `json:"reports"` // the number of the last report
	Position  lineage.Position     `json:"position"`
	Reset     string               `json:"reset,omitempty"`
	Dead      bool                 `json:"dead,omitempty"`
	Agents    map[string]installed `json:"agents"`
	Ended     []ended              `json:"ended"`
	Forgotten int                  `json:"forgotten,omitempty"` // ended tasks that are no longer kept
	Dropped   int                  `json:"dropped,omitempty"`   // reports that did not fit into the outbox
	Outbox    []waiting            `json:"outbox"`
	Tried     []string             `json:"tried,omitempty"` // the versions to which a change began, sorted
}

// installed is an agent on the server.
type installed struct {
	InstanceID    string `json:"instance_id"`
	ImageID       string `json:"image_id"`
	Version       string `json:"version"`
	Digest        []byte `json:"digest"`
	Configuration []byte `json:"configuration,omitempty"`
	Generation    uint64 `json:"generation"`
}

// ended is how a task ended on the server.
type ended struct {
	TaskID  string       `json:"task_id"`
	State   taskv1.State `json:"state"`
	Outcome []byte       `json:"outcome,omitempty"` // a taskv1.Outcome
}

// waiting is a report in the outbox.
type waiting struct {
	link.Report
	TaskID string `json:"task_id,omitempty"` // whose end it says
}

func memoryFile(root layout.Root) string { return root.Path("sim.json") }

// readMemory returns what a server keeps, empty for a new one.
func readMemory(root layout.Root) (*memory, error) {
	m := &memory{JournalID: ident.New(), Agents: map[string]installed{}}
	data, err := os.ReadFile(memoryFile(root))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(data, m)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of a server: %w", err)
	}
	return m, nil
}

// write keeps the memory through a kill of the process, not through a power cut.
func (m *memory) write(root layout.Root) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return layout.WriteVolatile(memoryFile(root), data, 0o600)
}

// say numbers a report and puts it into the outbox. taskID is the task whose end it says, or empty.
func (m *memory) say(r *reportv1.Report, kind, taskID string) {
	m.Reports++
	r.Sequence, r.JournalId = m.Reports, m.JournalID
	data, err := proto.Marshal(r)
	if err != nil {
		return // every text in it is our own, or came in a message
	}
	if len(m.Outbox) >= outboxLimit {
		m.Outbox = m.Outbox[1:]
		m.Dropped++
	}
	m.Outbox = append(m.Outbox, waiting{link.Report{Sequence: m.Reports, Kind: kind, Data: data}, taskID})
}

// end remembers how a task ended.
func (m *memory) end(id string, state taskv1.State, o *taskv1.Outcome) {
	data, err := proto.Marshal(o)
	if err != nil {
		return // as in say
	}
	if len(m.Ended) >= endedKept {
		m.Ended = m.Ended[1:]
		m.Forgotten++
	}
	m.Ended = append(m.Ended, ended{id, state, data})
}

// try remembers that a change to a version began.
func (m *memory) try(version string) {
	if at, found := slices.BinarySearch(m.Tried, version); !found && len(m.Tried) < endedKept {
		m.Tried = slices.Insert(m.Tried, at, version)
	}
}

// endOf returns how a task ended here.
func (m *memory) endOf(id string) (ended, bool) {
	n := slices.IndexFunc(m.Ended, func(e ended) bool { return e.TaskID == id })
	if n < 0 || id == "" {
		return ended{}, false
	}
	return m.Ended[n], true
}

// found lists the agents as the executor's observer does.
func (m *memory) found() []*reportv1.Found {
	var out []*reportv1.Found
	for name, a := range m.Agents {
		out = append(out, &reportv1.Found{
			Agent: name, InstanceId: a.InstanceID, Generation: a.Generation,
			Image:  &imagev1.Ref{Id: a.ImageID, Version: a.Version, Digest: a.Digest},
			Health: instancev1.Health_HEALTH_GOOD, ConfigurationDigest: a.Configuration,
		})
	}
	slices.SortFunc(out, func(a, b *reportv1.Found) int { return strings.Compare(a.Agent, b.Agent) })
	return out
}

// Settings are how the engines of a fleet behave.
type Settings struct {
	Seed     uint64
	Duration time.Duration // the mean of a task
	Shares   Shares
	Bad      Bad
}
