// Package change is the life of one change of one agent: its record, its states, which step
// follows, what recovery does after a crash, and how the change ends. It is pure: the engine
// does the steps and writes the journal.
//
// Guarantees:
//
//  1. The tables (Bring, Self, Removal) are the specification. Next and Recover only read them.
//  2. The state is derived from the record, so a journal of any format shows where a change is.
//  3. From every crash point a change ends with the new version, with the old one, or dropped
//     untouched. Only a rollback that fails ends it elsewhere, and that end is Failed.
//  4. A change that has not touched its agent is dropped by recovery: the document brings it back.
//
// The states, drawn from the tables, are in services/executor/docs/changes.md.
package change

import (
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Instance is one line of the inventory: an agent that this executor installed.
type Instance struct {
	Agent       string            `json:"agent"`
	ID          string            `json:"id"`
	Generation  uint64            `json:"generation"`
	Image       Manifest          `json:"image"`
	Tier        uint32            `json:"tier,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"` // at the installation, for variables
	InstalledAt time.Time         `json:"installed_at"`

	// Metadata is merged, as it was at the installation or the last configuration.
	Metadata            map[string]string `json:"metadata,omitempty"`
	Secrets             map[string]string `json:"secrets,omitempty"` // in clear; Metadata has them sealed
	ConfigurationDigest []byte            `json:"configuration_digest,omitempty"`
	// Rendered is the digest of the rendered configuration; empty for none.
	Rendered string `json:"rendered,omitempty"`
	// Adopted is the process that was adopted; nil once Garrison started one.
	Adopted *Adoption `json:"adopted,omitempty"`
}

// Failure is where and why a change failed.
type Failure struct {
	Step    taskv1.Step `json:"step"`
	Code    string      `json:"code"`
	What    string      `json:"what,omitempty"` // the failed probe, or how the process ended
	Reason  string      `json:"reason"`
	LogTail string      `json:"log_tail,omitempty"`
}

// Health is what was wrong with the old version just before the switch.
type Health struct {
	Code   string `json:"code"`           // as a Failure would have it
	What   string `json:"what,omitempty"` // the failed probe, or how its process ended
	Reason string `json:"reason"`
}

// StepTime is how long a step took.
type StepTime struct {
	Step taskv1.Step   `json:"step"`
	Took time.Duration `json:"took"`
}

// Removed is one path that a removal takes away.
type Removed struct {
	Path        string `json:"path"`
	LeftBecause string `json:"left_because,omitempty"`
}

// Long is the time after which the start of a task is reported. Of a shorter one only the end is.
const Long = time.Second

// ListAfter is how long the end of a change takes the place of a list of agents, but for the time until the next look.
// The list holds whatever became of the report of the end: refused, lost, or read too late to be recorded.
const ListAfter = 10 * time.Second

// Record is an open change of one agent. The journal keeps it before each of its steps.
type Record struct {
	ID         string            `json:"id"`                // the task's id, or a computed one
	TaskID     string            `json:"task_id,omitempty"` // empty without a task: nothing is reported
	Verb       taskv1.Verb       `json:"verb"`
	Agent      string            `json:"agent"`
	InstanceID string            `json:"instance_id"`
	Generation uint64            `json:"generation"`
	From       *Instance         `json:"from,omitempty"` // the inventory's line when the change began
	To         Manifest          `json:"to"`             // nil for a removal
	Labels     map[string]string `json:"labels,omitempty"`
	Tier       uint32            `json:"tier,omitempty"`
	Needs      []string          `json:"needs,omitempty"` // agents that must be installed
	Deadline   time.Time         `json:"deadline,omitzero"`
	BeganAt    time.Time         `json:"began_at"`

	Metadata            map[string]string `json:"metadata,omitempty"`
	Secrets             map[string]string `json:"secrets,omitempty"` // in clear; Metadata has them sealed
	ConfigurationDigest []byte            `json:"configuration_digest,omitempty"`

	Step    taskv1.Step `json:"step"` // begun, and perhaps done
	Steps   []StepTime  `json:"steps,omitempty"`
	Failure *Failure    `json:"failure,omitempty"`
	// OldHealth is what was wrong with the old version before the switch; nil for nothing.
	OldHealth *Health `json:"before,omitempty"`
	// RollbackError is why the rollback could not bring everything back.
	RollbackError string `json:"not_as_was,omitempty"`
	// OldUnhealthy is why the old version failed its health check after the rollback.
	OldUnhealthy string `json:"not_proven,omitempty"`
	// OldOutput is the last line that it printed then: output is read by fewer people than reasons.
	OldOutput string `json:"old_output,omitempty"`
	// Committed reports that the inventory names the new version.
	Committed bool `json:"committed,omitempty"`
	// TrialPassed reports that the trial of a new executor succeeded; the change only goes forward.
	TrialPassed bool   `json:"proven,omitempty"`
	LogOffset   int64  `json:"log_offset,omitempty"` // where the new version's output starts
	Notify      string `json:"notify,omitempty"`     // the notify socket that is open for it
	// DirExisted reports that the agent's directory was there without an inventory line.
	DirExisted bool      `json:"existed,omitempty"`
	Removed    []Removed `json:"removed,omitempty"`
	// Rendered is the digest of the new version's rendered configuration.
	Rendered string `json:"rendered,omitempty"`
	// DirMade reports that the change made the agent's directory before the switch.
	DirMade bool `json:"made,omitempty"`
	// Repairs names what was damaged of the same image: RepairsImage or RepairsConfiguration.
	Repairs string `json:"mends,omitempty"`
	// ReplacesImage reports that a fresh copy takes the place of the damaged image.
	ReplacesImage bool `json:"renewed,omitempty"`
	// Unknown is what the document asks for that this version does not know; it is refused.
	Unknown string   `json:"unknown,omitempty"`
	Unkept  [][]byte `json:"unkept,omitempty"` // digests of kept versions that a removal deletes
	// Candidate names the process that an adoption takes over, and Adoption is that process.
	Candidate string    `json:"candidate,omitempty"`
	Adoption  *Adoption `json:"adoption,omitempty"`

	Interruptions Interruptions `json:"interruptions,omitzero"`
	// BusAnswered reports that the bus could be reached before the switch.
	BusAnswered bool `json:"bus_answered,omitempty"`
	// Stopped reports that the executor was stopped during the change, and did not crash.
	Stopped bool `json:"stopped,omitempty"`
}

// What a change may repair. The process is then restarted or signalled even if nothing else differs.
const (
	RepairsImage         = "image"
	RepairsConfiguration = "configuration"
)

// Removes reports whether the change is a removal, or a release, which leaves the process.
func (r *Record) Removes() bool {
	return r.Verb == taskv1.Verb_VERB_REMOVE || r.Verb == taskv1.Verb_VERB_RELEASE
}

// Adopts reports whether the change makes a process that runs the agent's.
func (r *Record) Adopts() bool { return r.Verb == taskv1.Verb_VERB_ADOPT }

// SameImage reports whether the agent keeps its image: a configuration or a repair.
func (r *Record) SameImage() bool { return r.From != nil && r.From.Image.GetId() == r.To.GetId() }

// OldImage returns the image of the version that is replaced; without one for a first install.
func (r *Record) OldImage() Manifest {
	if r.From == nil {
		return Manifest{}
	}
	return r.From.Image
}

// SelfInvolved reports whether the old or the new version is the executor's own program.
func (r *Record) SelfInvolved() bool { return r.To.IsSelf() || r.OldImage().IsSelf() }

// Took adds to the time of a step, which may be done again after a crash.
func (r *Record) Took(s taskv1.Step, d time.Duration) {
	for i := range r.Steps {
		if r.Steps[i].Step == s {
			r.Steps[i].Took += d
			return
		}
	}
	r.Steps = append(r.Steps, StepTime{Step: s, Took: d})
}

// Installed returns the inventory's line that the change writes when it commits.
func (r *Record) Installed(at time.Time) *Instance {
	return &Instance{
		Agent: r.Agent, ID: r.InstanceID, Generation: r.Generation, Tier: r.Tier,
		Image: r.To, Labels: r.Labels, InstalledAt: at,
		Metadata: r.Metadata, Secrets: r.Secrets, ConfigurationDigest: r.ConfigurationDigest, Rendered: r.Rendered,
		Adopted: r.Adoption,
	}
}

// Manifest is an image's manifest that can be kept in a record.
type Manifest struct{ *imagev1.Manifest }

// MarshalJSON writes the manifest as the protocol's own JSON.
func (m Manifest) MarshalJSON() ([]byte, error) {
	if m.Manifest == nil {
		return []byte("null"), nil
	}
	return protojson.Marshal(m.Manifest)
}

// UnmarshalJSON reads the manifest. It ignores fields of a newer executor.
func (m *Manifest) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		m.Manifest = nil
		return nil
	}
	m.Manifest = &imagev1.Manifest{}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m.Manifest)
}

// Ref returns the image's reference; nil without a manifest.
func (m Manifest) Ref() *imagev1.Ref {
	if m.Manifest == nil {
		return nil
	}
	return &imagev1.Ref{Id: m.Id, Version: m.Version, Digest: m.Blob.GetDigest()}
}

// Digest returns the image's digest; nil without a manifest.
func (m Manifest) Digest() []byte { return m.GetBlob().GetDigest() }

// IsSelf reports whether the image holds the executor's own program.
func (m Manifest) IsSelf() bool { return m.GetKind() == agentv1.Kind_KIND_SELF }

// IsDaemon reports whether the image's agent is a process that stays.
func (m Manifest) IsDaemon() bool { return m.GetKind() == agentv1.Kind_KIND_DAEMON }

// Adoption is the process that became an agent without a restart.
type Adoption struct {
	Candidate string    `json:"candidate"`
	Pid       int       `json:"pid"`
	Start     uint64    `json:"start"` // in clock ticks since the boot
	Boot      string    `json:"boot"`
	StartedAt time.Time `json:"started_at"`
	Exe       string    `json:"exe"`
	ExeSHA256 []byte    `json:"exe_sha256,omitempty"`
	// Same reports that the program is the image's, so that Garrison may start it again.
	Same    bool      `json:"same,omitempty"`
	Sockets []string  `json:"sockets,omitempty"`
	At      time.Time `json:"at"`
	// Service is the systemd service whose main process it is; empty for another process. Systemd goes on to run it.
	Service string `json:"service,omitempty"`
	// Enabled reports that systemd starts the service with the machine.
	Enabled bool `json:"enabled,omitempty"`
}

// Foreign reports whether the process of an instance was adopted and is not as Garrison would start it: it runs another
// program than the image's, or is that of a service.
func (i *Instance) Foreign() bool {
	return i != nil && i.Adopted != nil && (!i.Adopted.Same || i.Adopted.Service != "")
}

// ServiceName returns the service of an adoption; empty for none.
func (a *Adoption) ServiceName() string {
	if a == nil {
		return ""
	}
	return a.Service
}

// Report returns an adoption as reports have it.
func (a *Adoption) Report() *serverv1.Adoption {
	if a == nil {
		return nil
	}
	out := &serverv1.Adoption{
		Candidate: a.Candidate, Pid: uint32(a.Pid), StartedAt: timestamppb.New(a.StartedAt), Exe: printable(a.Exe),
		ExeSha256: a.ExeSHA256, Same: a.Same, At: timestamppb.New(a.At), Service: a.Service,
	}
	for _, s := range a.Sockets {
		out.Sockets = append(out.Sockets, printable(s))
	}
	return out
}

func printable(s string) string { return strings.ToValidUTF8(s, "?") }
