// Package observe looks at what is on the server: agents, their links, images, configurations
// and processes, and what the inventory does not explain. It changes nothing but its memory.
//
// Guarantees:
//
//  1. Every look reads the disk, the supervisor and /proc. Only the status may use a look at an
//     image's files that is 30 s old, and the last report's list of what is unmanaged.
//  2. A trace is reported only if the inventory explains it neither before nor after the look,
//     and no change of its agent ended meanwhile.
//  3. Unmanaged links, processes and units are reported and never modified.
package observe

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/visible"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Observer looks at one server. It is safe for concurrent use.
type Observer struct {
	Root      layout.Root
	Server    string // its id
	Journal   *journal.Journal
	Images    *store.Images
	Processes *agent.Processes
	Configs   agent.Configs
	Slots     func() ([]supervise.Slot, error) // what the supervisor runs
	Trash     store.Trash
	Health    *Health
	Self      func(i *change.Instance, f *reportv1.Found) bool // reports whether this process is as i says
	Stale     time.Duration                                    // how old a look at images may be for the status
	Log       zerolog.Logger

	// NextRepair returns when an instance that rests is repaired again without a task; zero when it does not rest.
	NextRepair func(i *change.Instance) time.Time

	// Over reports whether an agent that is damaged is no longer repaired without a task.
	Over func(agent string) bool
}

// mostKept is how many kept versions of an agent are reported.
const mostKept = 8

// WholeFunc reports whether an image is whole.
type WholeFunc func(digest []byte) (imagedir.Mark, error)

// Linked returns the digest to which an agent's link leads, or nil.
func Linked(root layout.Root, agent string) []byte {
	target, err := os.Readlink(root.Current(agent))
	if err != nil {
		return nil
	}
	digest, ok := layout.Digest(target[strings.LastIndexByte(target, '/')+1:])
	if !ok || target != root.ImageLink(digest) {
		return nil
	}
	return digest
}

// Intact reports whether the link of an instance is in place and its image and configuration
// are whole, as of a recent look at the image's files.
func (o *Observer) Intact(i *change.Instance) bool {
	return o.RecentlyWhole(i) && o.Configs.Check(i) == nil && o.missingDir(i.Agent) == ""
}

// missingDir returns the name of a directory that each installed agent has, if it is missing.
func (o *Observer) missingDir(agent string) string {
	for _, dir := range []string{o.Root.State(agent), o.Root.Run(agent)} {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return filepath.Base(dir)
		}
	}
	return ""
}

// RecentlyWhole reports the same without the configuration.
func (o *Observer) RecentlyWhole(i *change.Instance) bool {
	_, err := o.recently(i.Image.Digest())
	return err == nil && o.LinkRight(i)
}

// Whole reports the same now: it looks at every file of the image.
func (o *Observer) Whole(i *change.Instance) bool {
	_, err := o.Images.Whole(i.Image.Digest())
	return err == nil && o.LinkRight(i)
}

func (o *Observer) recently(digest []byte) (imagedir.Mark, error) {
	return o.Images.WholeLately(digest, o.Stale)
}

// LinkRight reports whether the link of an instance leads to its image.
func (o *Observer) LinkRight(i *change.Instance) bool {
	return bytes.Equal(Linked(o.Root, i.Agent), i.Image.Digest())
}

// linkLost returns why an agent has no link to an image: it is missing, or leads elsewhere.
func linkLost(root layout.Root, agent string) (why, reason string) {
	target, err := os.Readlink(root.Current(agent))
	switch {
	case err == nil:
		return code.LinkElsewhere, visible.Line("its link leads to " + target)
	case errors.Is(err, fs.ErrNotExist):
		return code.LinkMissing, "its link is missing"
	case layout.Blocked(root.Current(agent)):
		return code.LinkBlocked, "directory " + root.Current(agent) + " with files is in the place of its link"
	}
	return code.LinkElsewhere, "something else is in the place of its link"
}

// agent looks at an agent of the inventory. While a change is open, its configuration may be
// the next one's.
func (o *Observer) agent(i *change.Instance, changing bool, whole WholeFunc) *reportv1.Found {
	f := &reportv1.Found{
		Agent: i.Agent, InstanceId: i.ID, Generation: i.Generation, Health: instancev1.Health_HEALTH_BAD,
	}
	defer func() {
		f.Reason = secret.Scrub(f.Reason, i.Secrets)
		o.noteNext(i, f)
	}()
	added, ok := o.files(i, f, changing, whole)
	if !ok {
		o.noteProcess(i, f)
		return f
	}
	if i.Image.IsDaemon() && !o.process(i, f) || i.Image.IsSelf() && !o.Self(i, f) {
		return f
	}
	f.Health = instancev1.Health_HEALTH_GOOD
	if f.Reason == "" && added != "" {
		f.Reason = "there are new files in its image, which goes with its version: " + added + keepInState
	}
	return f
}

const keepInState = "; files that an agent writes belong in ${state}"

// files reports whether the link, the image, the configuration and the directories of an agent are in place, and notes
// the image. added names the files that are new in it.
func (o *Observer) files(
	i *change.Instance, f *reportv1.Found, changing bool, whole WholeFunc,
) (added string, ok bool) {
	digest := Linked(o.Root, i.Agent)
	if digest == nil {
		f.Health = instancev1.Health_HEALTH_ABSENT
		f.Code, f.Reason = linkLost(o.Root, i.Agent)
		return "", false
	}
	mark, err := whole(digest)
	if mark.Digest != "" {
		f.Image = &imagev1.Ref{Id: mark.ImageID, Version: mark.Version, Digest: digest}
		if bytes.Equal(i.Image.Digest(), digest) {
			f.Image = i.Image.Ref() // two images may have the same content
		}
	}
	if err != nil {
		f.Code, f.Reason = code.ImageLost, change.OneLine(err)
		if fault.Is(err, fault.Conflict) {
			f.Code = code.Damaged
		}
		return "", false
	}
	f.ConfigurationDigest = i.ConfigurationDigest
	if why := o.Configs.Check(i); why != nil && !changing {
		f.Code, f.Reason = code.ConfigurationChanged, change.OneLine(why)
		return "", false
	}
	if dir := o.missingDir(i.Agent); dir != "" && !changing {
		f.Code, f.Reason = code.DirectoryMissing, "its directory "+dir+" is missing"
		return "", false
	}
	return mark.Added, true
}

// noteNext notes when the damage of an agent is repaired again. A stopped process is continued without a rest.
func (o *Observer) noteNext(i *change.Instance, f *reportv1.Found) {
	if o.NextRepair == nil || !code.Healed(f.Code) || f.Code == code.ProcessStopped {
		return
	}
	if o.Over(i.Agent) {
		if f.Reason += "; it came back after two repairs, and stays"; f.Code == code.Damaged {
			f.Reason += keepInState
		}
		f.Code = code.RepairDidNotHold
		return
	}
	if at := o.NextRepair(i); !at.IsZero() {
		f.NextAt = timestamppb.New(at)
	}
}

// process reports whether an agent's process is healthy, and notes it.
func (o *Observer) process(i *change.Instance, f *reportv1.Found) bool {
	u := o.Processes.Known(i.Agent, i.Image.GetId())
	if u == nil {
		f.Code, f.Reason = code.NotRunning, "it does not run"
		return false
	}
	s := u.Status()
	if s.Pid == 0 {
		f.Code, f.Reason = code.NotRunning, visible.Line("it does not run: "+lastWords(o.Root, i, s.LastEnd))
		f.NextAt = nextStart(s)
		if s.Disabled {
			f.Code = code.ServiceDisabled
		}
		if s.CrashLoop {
			f.Code, f.Reason = code.CrashLoop, visible.Line("it keeps ending: "+lastWords(o.Root, i, s.LastEnd))
		}
		return false
	}
	f.Pid, f.StartedAt = uint32(s.Pid), timestamppb.New(s.StartedAt)
	if proctree.Stopped(s.Pid) {
		f.Code, f.Reason = code.ProcessStopped, "its process was stopped by a signal"
		return false
	}
	if is := adoptionOf(i, u); is != nil && is.Pid == s.Pid {
		showAdopted(is, f)
	} else if !o.runsCurrent(f, s.Pid) {
		return false
	}
	if f.Reason = o.Health.Why(i.Agent); f.Reason != "" {
		f.Code = code.ProbeFails
	} else if s.CrashLoop && !o.proven(i, s) {
		f.Code, f.Reason = code.CrashLoop, visible.Line("it keeps ending; it was just restarted after: "+
			lastWords(o.Root, i, s.LastEnd))
	} else if d, ok := u.(supervise.Drifting); ok {
		if f.Reason = visible.Line(d.Drift()); f.Reason != "" {
			f.Code = code.ServiceDisabled
		}
	}
	return f.Reason == ""
}

// lastWords returns how an agent's process ended, with the last line of its output.
func lastWords(root layout.Root, i *change.Instance, how string) string {
	if line := supervise.LastLine(root.Output(i.Agent), 0, i.Secrets); line != "" {
		how += "; last output: " + line
	}
	return how
}

// proven reports whether the process that runs works: it answered a probe, or stayed up for the soak where nothing
// can be asked.
func (o *Observer) proven(i *change.Instance, s supervise.Status) bool {
	v := agent.Installed(i)
	return o.Health.GoodSince(i.Agent, s.StartedAt) || !v.Answers() && time.Since(s.StartedAt) >= v.Soak()
}

// ProvenSoon reports whether an agent was restarted lately after it ended, and is not shown as good yet.
func (o *Observer) ProvenSoon(i *change.Instance) bool {
	u := o.Processes.Known(i.Agent, i.Image.GetId())
	if u == nil || !i.Image.IsDaemon() {
		return false
	}
	s := u.Status()
	return s.Pid != 0 && s.Restarts > 0 && time.Since(s.StartedAt) < provenWithin &&
		(s.CrashLoop || o.Health.Why(i.Agent) != "") && !o.proven(i, s)
}

// provenWithin is how long a restarted agent is probed often.
const provenWithin = time.Minute

// noteProcess notes the process of an agent whose files are damaged, if it runs.
func (o *Observer) noteProcess(i *change.Instance, f *reportv1.Found) {
	if !i.Image.IsDaemon() {
		return
	}
	if u := o.Processes.Known(i.Agent, i.Image.GetId()); u != nil {
		if s := u.Status(); s.Pid != 0 {
			f.Pid, f.StartedAt = uint32(s.Pid), timestamppb.New(s.StartedAt)
		}
	}
}

// nextStart returns when a process that keeps ending is started again; nil when that is not to come.
func nextStart(s supervise.Status) *timestamppb.Timestamp {
	if !s.NextStart.After(time.Now()) {
		return nil
	}
	return timestamppb.New(s.NextStart.Add(time.Second - 1).Truncate(time.Second))
}

// showAdopted notes the proof of an adopted process. When it runs another program than the image's, no image is known
// to be there.
func showAdopted(is *change.Adoption, f *reportv1.Found) {
	if f.Adoption = is.Report(); !is.Same {
		f.Image = &imagev1.Ref{Version: "unknown"}
	}
}

// adoptionOf returns the adoption of an instance as it is now: systemd may have started another process of a service.
func adoptionOf(i *change.Instance, u supervise.Unit) *change.Adoption {
	if p, ok := u.(supervise.Present); ok && i.Adopted.ServiceName() != "" {
		return p.Adoption()
	}
	return i.Adopted
}

// printable makes a text fit for a report: a name on the disk may hold anything.
func printable(s string) string { return strings.ToValidUTF8(s, "?") }
