package journal

import (
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Manifest is an image's manifest that can be kept in a record.
type Manifest struct{ *imagev1.Manifest }

// MarshalJSON writes the manifest as the protocol's own JSON.
func (m Manifest) MarshalJSON() ([]byte, error) {
	if m.Manifest == nil {
		return []byte("null"), nil
	}
	return protojson.Marshal(m.Manifest)
}

// UnmarshalJSON reads it again; fields that a newer executor wrote are passed over.
func (m *Manifest) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		m.Manifest = nil
		return nil
	}
	m.Manifest = &imagev1.Manifest{}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m.Manifest)
}

// Ref names the image; nil for none.
func (m Manifest) Ref() *imagev1.Ref {
	if m.Manifest == nil {
		return nil
	}
	return &imagev1.Ref{Id: m.Id, Version: m.Version, Digest: m.Blob.GetDigest()}
}

// Digest is the image's digest; nil for none.
func (m Manifest) Digest() []byte { return m.GetBlob().GetDigest() }

// Instance is one line of the inventory: an agent that this executor installed.
type Instance struct {
	Agent       string            `json:"agent"`
	ID          string            `json:"id"`
	Generation  uint64            `json:"generation"`
	Image       Manifest          `json:"image"`
	Tier        uint32            `json:"tier,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"` // as they were when it was installed; variables stand for these
	InstalledAt time.Time         `json:"installed_at"`

	Metadata            map[string]string `json:"metadata,omitempty"` // merged, as it was when it was installed or configured
	ConfigurationDigest []byte            `json:"configuration_digest,omitempty"`
	Rendered            string            `json:"rendered,omitempty"` // the digest of the rendered configuration; empty when there is none
}

// Failure is where and why a change went wrong.
type Failure struct {
	Step    taskv1.Step `json:"step"`
	Code    string      `json:"code"`
	What    string      `json:"what,omitempty"` // the probe that failed, or how the process ended
	Reason  string      `json:"reason"`
	LogTail string      `json:"log_tail,omitempty"`
}

// StepTime is how long a step took.
type StepTime struct {
	Step taskv1.Step   `json:"step"`
	Took time.Duration `json:"took"`
}

// Change is an open change of one agent. It is kept before each of its steps.
type Change struct {
	ID         string            `json:"id"`                // the task's id, or a computed one
	TaskID     string            `json:"task_id,omitempty"` // empty when no task is under way: nothing is reported of it
	Verb       taskv1.Verb       `json:"verb"`
	Agent      string            `json:"agent"`
	InstanceID string            `json:"instance_id"`
	Generation uint64            `json:"generation"`
	From       *Instance         `json:"from,omitempty"` // the inventory when it began
	To         Manifest          `json:"to"`             // nil for a removal
	Labels     map[string]string `json:"labels,omitempty"`
	Tier       uint32            `json:"tier,omitempty"`
	Needs      []string          `json:"needs,omitempty"` // agents that must be there
	Deadline   time.Time         `json:"deadline,omitzero"`
	BeganAt    time.Time         `json:"began_at"`

	Metadata            map[string]string `json:"metadata,omitempty"`
	ConfigurationDigest []byte            `json:"configuration_digest,omitempty"`

	Step      taskv1.Step `json:"step"` // begun, and perhaps done
	Steps     []StepTime  `json:"steps,omitempty"`
	Failure   *Failure    `json:"failure,omitempty"`
	Before    *Health     `json:"before,omitempty"`     // what was wrong with the old one before the switch; nil for nothing
	NotAsIs   string      `json:"not_as_was,omitempty"` // why the undo could not bring everything back
	NotProven string      `json:"not_proven,omitempty"` // why the old one, brought back, did not prove itself
	Committed bool        `json:"committed,omitempty"`  // the inventory says the new one
	Proven    bool        `json:"proven,omitempty"`     // the trial of an executor ended well; from here it only goes forward
	LogOffset int64       `json:"log_offset,omitempty"` // where the new one's output starts
	Notify    string      `json:"notify,omitempty"`     // the notify socket that is open for it
	Existed   bool        `json:"existed,omitempty"`    // the agent's directory was there before, though not in the inventory
	Removed   []Removed   `json:"removed,omitempty"`    // by a removal
	Rendered  string      `json:"rendered,omitempty"`   // the digest of what the new one's configuration became
	Made      bool        `json:"made,omitempty"`       // the agent's directory was made before the switch, for the rehearsal
	Mends     string      `json:"mends,omitempty"`      // what was damaged when it began, of the same image: a Mends constant
	Renewed   bool        `json:"renewed,omitempty"`    // a fresh copy of its damaged image takes that one's place: it is done or undone
	Unknown   string      `json:"unknown,omitempty"`    // what the document asks of it that this version does not know; it is refused
	Unkept    [][]byte    `json:"unkept,omitempty"`     // digests of kept versions that a removal takes away
}

// What a change may find damaged. What runs is started anew, or told of it, even if
// nothing else differs.
const (
	MendsImage         = "image"
	MendsConfiguration = "configuration"
)

// Removed is one path that a removal takes away.
type Removed struct {
	Path        string `json:"path"`
	LeftBecause string `json:"left_because,omitempty"`
}

// Outcome is what is reported of the change when it has ended.
func (c *Change) Outcome() *taskv1.Outcome {
	j := c.judge()
	o := &taskv1.Outcome{Code: j.code, Reason: j.reason}
	if f := c.Failure; f != nil {
		o.FailedStep, o.LogTail = f.Step, f.LogTail
	}
	for _, s := range c.Steps {
		o.Steps = append(o.Steps, &taskv1.StepTime{Step: s.Step, Took: durationpb.New(s.Took)})
	}
	return o
}

// State is how the change ended.
func (c *Change) State() taskv1.State { return c.judge().state }

// Ended is a task that ended here. It is never executed again.
type Ended struct {
	State   taskv1.State `json:"state"`
	Outcome []byte       `json:"outcome"` // garrison.task.v1.Outcome
	At      time.Time    `json:"at"`
}

// ReadOutcome gives the outcome as it was reported.
func (e Ended) ReadOutcome() (*taskv1.Outcome, error) {
	o := &taskv1.Outcome{}
	return o, proto.Unmarshal(e.Outcome, o)
}
