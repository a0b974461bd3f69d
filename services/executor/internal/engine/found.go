package engine

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
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

// intact says whether the link and the image of an instance are in place.
func (e *Engine) intact(i *journal.Instance) bool {
	return hexOf(e.linked(i.Agent)) == hexOf(i.Image.Digest()) && e.images.Sealed(i.Image.Digest())
}

// found looks at every agent on the server, in the inventory or not, by name.
func (e *Engine) found() ([]*reportv1.Found, error) {
	var instances []*journal.Instance
	open := map[string]bool{}
	err := e.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		if instances, err = tx.Instances(); err != nil {
			return err
		}
		changes, err := tx.Changes()
		for _, c := range changes {
			open[c.Agent] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []*reportv1.Found
	known := map[string]bool{}
	for _, i := range instances {
		known[i.Agent] = true
		out = append(out, e.look(i))
	}
	entries, _ := os.ReadDir(e.cfg.Root.Agents()) // a directory that is not there has no agents
	for _, d := range entries {
		if digest := e.linked(d.Name()); digest != nil && !known[d.Name()] && !open[d.Name()] && ident.CheckName("agent", d.Name()) == nil {
			out = append(out, e.lookForeign(d.Name(), digest))
		}
	}
	slices.SortFunc(out, func(a, b *reportv1.Found) int { return strings.Compare(a.Agent, b.Agent) })
	return out, nil
}

// look finds out how an agent of the inventory is.
func (e *Engine) look(i *journal.Instance) *reportv1.Found {
	f := &reportv1.Found{Agent: i.Agent, InstanceId: i.ID, Health: instancev1.Health_HEALTH_BAD}
	digest := e.linked(i.Agent)
	if digest == nil {
		f.Health, f.Reason = instancev1.Health_HEALTH_ABSENT, "its link is not there"
		return f
	}
	mark, err := e.images.Whole(digest)
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
	if i.Image.GetKind() == agentv1.Kind_KIND_DAEMON && !e.lookProcess(i, f) {
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
	e.mu.Lock()
	f.Reason = e.sick[i.Agent]
	e.mu.Unlock()
	if f.Reason == "" && s.CrashLoop {
		f.Reason = "it keeps ending; it was just started again"
	}
	return f.Reason == ""
}

func (e *Engine) lookForeign(agent string, digest []byte) *reportv1.Found {
	f := &reportv1.Found{Agent: agent, Health: instancev1.Health_HEALTH_BAD, Reason: "it is not in the inventory"}
	if mark, err := e.images.Mark(digest); err == nil {
		f.Image = &imagev1.Ref{Id: mark.ImageID, Version: mark.Version, Digest: digest}
	}
	return f
}

// checkHealth probes every agent that runs and can be probed.
func (e *Engine) checkHealth(ctx context.Context) {
	var instances []*journal.Instance
	err := e.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		instances, err = tx.Instances()
		return err
	})
	if err != nil {
		e.cfg.Log.Error().Err(err).Msg("health not checked")
		return
	}
	sick := map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, i := range instances {
		p, err := e.probeSpec(sideOf(i), nil)
		if err != nil || i.Image.GetKind() != agentv1.Kind_KIND_DAEMON || e.busy[i.Agent] {
			continue
		}
		all.Go(func() {
			if err := p.Once(ctx); err != nil {
				mu.Lock()
				sick[i.Agent] = "its probe fails: " + oneLine(err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	e.mu.Lock()
	e.sick = sick // changes that ended meanwhile are looked at again the next time
	e.mu.Unlock()
}
