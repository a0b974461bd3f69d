package engine

import (
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// linked gives the digest to which an agent's link leads, or nil.
func (e *Engine) linked(agent string) []byte {
	target, err := os.Readlink(e.cfg.Root.Current(agent))
	if err != nil {
		return nil
	}
	digest, err := hex.DecodeString(filepath.Base(target))
	if err != nil || target != e.cfg.Root.ImageLink(digest) {
		return nil
	}
	return digest
}

// intact reports whether the link of an instance is in place and its image whole. It looks
// at every file of the image.
func (e *Engine) intact(i *journal.Instance) bool {
	_, err := e.images.Whole(i.Image.Digest())
	return err == nil && e.linkedRight(i)
}

// intactLately reports the same, as of the last look at the image's files.
func (e *Engine) intactLately(i *journal.Instance) bool {
	_, err := e.images.WholeLately(i.Image.Digest(), 2*e.cfg.CheckEvery)
	return err == nil && e.linkedRight(i)
}

func (e *Engine) linkedRight(i *journal.Instance) bool {
	return hexOf(e.linked(i.Agent)) == hexOf(i.Image.Digest())
}

// found looks at every agent on the server, in the inventory or not, by name.
func (e *Engine) found() (*reportv1.AgentsReport, error) { return e.foundWith(e.images.Whole) }

// foundWith looks at images in a way of its own. What the inventory does not explain must
// be unexplained before and after the look, and not be a change's that ended meanwhile.
func (e *Engine) foundWith(whole wholeFunc) (*reportv1.AgentsReport, error) {
	began := time.Now()
	before, err := e.inventory()
	if err != nil {
		return nil, err
	}
	var agents []*reportv1.Found
	for _, i := range before.instances {
		agents = append(agents, e.look(i, before.open[i.Agent], whole))
	}
	traces := e.traces(whole)
	after, err := e.inventory()
	if err != nil {
		return nil, err
	}
	r := listed(e.unexplained(before, after, began, traces))
	e.noteBeside(agents, r.Agents)
	if agents, err = e.addTrash(agents); err != nil {
		return nil, err
	}
	r.Agents = append(agents, r.Agents...)
	slices.SortStableFunc(r.Agents, func(a, b *reportv1.Found) int { return strings.Compare(a.Agent, b.Agent) })
	return r, nil
}

// unexplained returns the traces, looked for since a time, that the inventory explains
// neither as it was then nor as it is now.
func (e *Engine) unexplained(before, after inventoryNow, began time.Time, traces []trace) []trace {
	return slices.DeleteFunc(traces, func(t trace) bool {
		return before.explains(t) || after.explains(t) || e.settledSince(t.name, began)
	})
}

// settledSince says whether a change of an agent ended after a time.
func (e *Engine) settledSince(agent string, began time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settled[agent].After(began)
}

// inventoryNow is what the journal says that is there, or comes and goes.
type inventoryNow struct {
	instances []*journal.Instance
	open      map[string]bool // agents that are being changed
	going     []string        // those of them that are being removed
}

func (e *Engine) inventory() (inventoryNow, error) {
	in := inventoryNow{open: map[string]bool{}}
	err := e.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		if in.instances, err = tx.Instances(); err != nil {
			return err
		}
		changes, err := tx.Changes()
		for _, c := range changes {
			in.open[c.Agent] = true
			if c.Verb == taskv1.Verb_VERB_REMOVE {
				in.going = append(in.going, c.Agent)
			}
		}
		return err
	})
	return in, err
}

// strictly leaves out the removals that are open: what they take away is in the inventory,
// or is not explained.
func (in inventoryNow) strictly() inventoryNow {
	in.open = maps.Clone(in.open)
	for _, agent := range in.going {
		delete(in.open, agent)
	}
	return in
}

// wholeFunc says whether an image is whole.
type wholeFunc func(digest []byte) (imagedir.Mark, error)

// look finds out how an agent of the inventory is. While a change is open, its
// configuration may be the next one's.
func (e *Engine) look(i *journal.Instance, changing bool, whole wholeFunc) *reportv1.Found {
	f := &reportv1.Found{Agent: i.Agent, InstanceId: i.ID, Generation: i.Generation, Health: instancev1.Health_HEALTH_BAD}
	digest := e.linked(i.Agent)
	if digest == nil {
		f.Health, f.Reason = instancev1.Health_HEALTH_ABSENT, "its link is not there"
		return f
	}
	mark, err := whole(digest)
	if mark.Digest != "" {
		f.Image = &imagev1.Ref{Id: mark.ImageID, Version: mark.Version, Digest: digest}
		if hexOf(i.Image.Digest()) == mark.Digest {
			f.Image = i.Image.Ref() // two images may have the same content
		}
	}
	if err != nil {
		f.Reason = oneLine(err)
		return f
	}
	f.ConfigurationDigest = i.ConfigurationDigest
	if why := e.misconfigured(i); why != nil && !changing {
		f.Reason = oneLine(why)
		return f
	}
	if i.Image.GetKind() == agentv1.Kind_KIND_DAEMON && !e.lookProcess(i, f) {
		return f
	}
	if isSelf(i.Image) && !e.lookSelf(i, f) {
		return f
	}
	f.Health = instancev1.Health_HEALTH_GOOD
	return f
}

// lookProcess finds out whether an agent's process is well.
func (e *Engine) lookProcess(i *journal.Instance, f *reportv1.Found) bool {
	u := e.knownUnit(i.Agent, i.Image.GetId())
	if u == nil {
		f.Reason = "it does not run"
		return false
	}
	s := u.Status()
	if s.Pid == 0 {
		f.Reason = strings.ToValidUTF8("it does not run: "+s.LastEnd, "?")
		if s.CrashLoop {
			f.Reason = strings.ToValidUTF8("it keeps ending: "+s.LastEnd, "?")
		}
		return false
	}
	f.Pid, f.StartedAt = uint32(s.Pid), timestamppb.New(s.StartedAt)
	if !e.lookRunning(f, s.Pid) {
		return false
	}
	e.mu.Lock()
	f.Reason = e.sick[i.Agent]
	e.mu.Unlock()
	if f.Reason == "" && s.CrashLoop {
		f.Reason = "it keeps ending; it was just started again"
	}
	return f.Reason == ""
}
