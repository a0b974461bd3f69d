package steps

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/configdir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/loader"
)

// Rehearse renders the new configuration and lets the new version check itself with it.
type Rehearse struct {
	Root    layout.Root
	Configs agent.Configs
	Compare Compare
}

// Do implements Step.
func (s Rehearse) Do(ctx context.Context, r *Run) error {
	v := agent.Coming(r.Record)
	if err := checkPrograms(ctx, s.Configs.Specs, v); err != nil {
		return err
	}
	tree, err := s.Configs.Render(v)
	if err != nil {
		return err
	}
	r.Rendered = tree.Digest()
	if _, err := os.Lstat(s.Root.Agent(r.Agent)); errors.Is(err, os.ErrNotExist) {
		r.DirMade = true // so that giving up, also after a crash, deletes it
	}
	if err := r.Save(); err != nil {
		return err
	}
	r.Point("rendered")
	if v.Config, err = s.place(r, tree); err != nil {
		return err
	}
	r.Point("configuration placed")
	return s.rehearse(ctx, r, v)
}

// place writes the rendered configuration and returns its directory; "" for none. A damaged
// configuration that is in use is written elsewhere, for the rehearsal alone: the switch
// repairs it, which is in the journal.
func (s Rehearse) place(r *Run, tree configdir.Tree) (string, error) {
	if r.Rendered == "" || configInUse(r.Record) && r.To.GetRun().GetRehearsal() == nil {
		return "", nil
	}
	dir := s.Root.Rendered(r.Agent, r.Rendered)
	if configInUse(r.Record) && configdir.Check(dir) != nil {
		dir = s.Root.RehearsedConfig(r.Agent, r.Rendered)
	}
	return dir, tree.Place(dir)
}

// rehearse runs the image's own check, within the time that the agent has to be ready.
func (s Rehearse) rehearse(ctx context.Context, r *Run, v agent.Version) error {
	run, err := s.Configs.Specs.Fill(v)
	if err != nil || run.Rehearsal == nil || s.Compare.Idle(r.Record) {
		return err
	}
	if err := makeDirs(s.Root, r); err != nil {
		return err
	}
	p, err := s.Configs.Specs.Exec(v, run.Rehearsal)
	if err != nil {
		return err
	}
	within := v.ReadyWithin()
	limit, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := p.Run(limit); err != nil && ctx.Err() == nil {
		return refuse(code.RehearsalFailed, "the new version's own check within %s: %v", within, err)
	}
	return ctx.Err()
}

// RehearseSelf lets a new executor show that it reads the journal and reaches the bus.
type RehearseSelf struct {
	Specs agent.Specs
	Self  Self
}

// Do implements Step.
func (s RehearseSelf) Do(ctx context.Context, r *Run) error {
	v := agent.Coming(r.Record)
	if err := checkPrograms(ctx, s.Specs, v); err != nil {
		return err
	}
	return s.Self.Rehearse(ctx, s.Specs.Program(v))
}

// checkPrograms refuses an image without the programs that it names, or with one that this server cannot load, before
// the old version is stopped.
func checkPrograms(ctx context.Context, s agent.Specs, v agent.Version) error {
	run, err := s.Fill(v)
	if err != nil {
		return err
	}
	spec, err := s.Spec(v, "")
	if err != nil {
		return err
	}
	var commands []string
	if !isKind(v.Image, agentv1.Kind_KIND_FILES) {
		commands = append(commands, run.Command)
	}
	if run.Exec != nil {
		commands = append(commands, run.Exec.GetCommand())
	}
	if run.Rehearsal != nil {
		commands = append(commands, run.Rehearsal.GetCommand())
	}
	for _, command := range commands {
		info, err := os.Stat(s.Path(v, command))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return refuse(code.InvalidImage, "the command %q is not a program in the image", command)
		}
		missing, err := loader.Here.Missing(ctx, s.Path(v, command), spec.Env)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			return refuse(code.MissingLibrary, "the program %q needs %s: neither the image nor the server has that "+
				"where it is looked for", command, strings.Join(missing, ", "))
		}
	}
	return nil
}
