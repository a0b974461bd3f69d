package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/e2e/rig"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// reality is what a server has of an agent, without asking Garrison.
type reality struct {
	Linked    string   // the version that the agent's link leads to, or ""
	Processes []string // the version of each process
	Answers   string   // the version in the answer over HTTP, or ""
	Config    string   // the configuration that the process read, or ""
}

// inspect returns what a server has, by agent.
func (w *World) inspect(ctx context.Context, s *rig.Server) (map[string]reality, error) {
	out := map[string]reality{}
	dirs, err := os.ReadDir(filepath.Join(s.Root, "agents"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, d := range dirs {
		version, err := os.ReadFile(filepath.Join(currentOf(s, d.Name()), "VERSION"))
		if err != nil {
			version = []byte("unreadable")
		}
		out[d.Name()] = reality{Linked: string(version)}
	}
	pids, err := s.AgentProcesses()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		agent, version, ok := commandLine(pid)
		if !ok {
			continue // it ended meanwhile
		}
		r := out[agent]
		r.Processes = append(r.Processes, version)
		out[agent] = r
	}
	for agent, r := range out {
		url := s.URL()
		if agent == tuner {
			url = "http://127.0.0.1:" + strconv.Itoa(w.tuner[s.Name])
		}
		r.Answers, _ = rig.Get(ctx, url+"/") // empty when it does not answer
		r.Config, _ = rig.Get(ctx, url+"/config")
		out[agent] = r
	}
	return out, nil
}

// commandLine returns the agent and the version that a process was started as.
func commandLine(pid int) (agent, version string, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00")
	i := slices.Index(args, "-version")
	if err != nil || i < 0 || i+1 >= len(args) {
		return "", "", false
	}
	return filepath.Base(args[0]), args[i+1], true
}

// list returns the files below a directory, relative to it; none when it is missing.
func list(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		out = append(out, rel)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return out, err
}

// disagreements compares the registry's lists with each server. It returns nothing when
// all is quiet and equal.
func (w *World) disagreements(ctx context.Context) []string {
	servers, err := w.servers(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	instances, err := w.instances(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	open, err := w.openTasks(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, t := range open {
		out = append(out, fmt.Sprintf("task %s (%s %s) is %s", t.Id, t.Verb, t.Agent, t.State))
	}
	for _, s := range w.Servers() {
		known := servers[s.Name]
		if known.GetLife() != serverv1.Life_LIFE_ALIVE || known.GetPresence() != serverv1.Presence_PRESENCE_ONLINE {
			out = append(out,
				fmt.Sprintf("%s is %s, %s: %s", s.Name, known.GetLife(), known.GetPresence(), known.GetReason()))
			continue
		}
		out = append(out, w.compare(ctx, s, instances[s.Name])...)
	}
	return out
}

// compare compares the instances of a server with what it has.
func (w *World) compare(ctx context.Context, s *rig.Server, instances map[string]*instancev1.Instance) []string {
	actual, err := w.inspect(ctx, s)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, agent := range []string{beacon, tuner} {
		if wrong := differs(instances[agent], actual[agent]); wrong != "" {
			out = append(
				out,
				fmt.Sprintf("%s on %s: %s (registry: %s; server: %+v)", agent, s.Name, wrong, said(instances[agent]),
					actual[agent]),
			)
		}
		delete(actual, agent)
	}
	for name := range actual {
		out = append(out, fmt.Sprintf("%s has a directory or process of %q", s.Name, name))
	}
	files, err := list(s.Root)
	if err != nil {
		return append(out, err.Error())
	}
	for _, f := range files {
		if strings.Contains(f, ".garrison-tmp") || strings.HasPrefix(f, "cache/") {
			out = append(out, fmt.Sprintf("%s has the temporary file %s", s.Name, f))
			break
		}
	}
	return out
}

func said(i *instancev1.Instance) string {
	if i == nil {
		return "none"
	}
	return fmt.Sprintf("wanted %q, observed %q, %s, %s, level %q, %s", i.Wanted.GetVersion(), i.Observed.GetVersion(),
		i.Health, i.State, i.Configuration.GetMetadata()["level"], i.Reason)
}

// differs returns what is wrong with an instance beside what the server has of it, or "".
func differs(i *instancev1.Instance, r reality) string {
	if i == nil {
		if r.Linked != "" || len(r.Processes) > 0 {
			return "it is present without an instance"
		}
		return ""
	}
	switch i.State {
	case instancev1.State_STATE_CONVERGED, instancev1.State_STATE_FAILED:
	default:
		return "it is not settled"
	}
	if i.State == instancev1.State_STATE_CONVERGED && i.Wanted.GetVersion() != i.Observed.GetVersion() {
		return "converged, and not what is wanted"
	}
	return observedDiffers(i, r)
}

// observedDiffers returns what is wrong with what an instance is observed as, or "".
func observedDiffers(i *instancev1.Instance, r reality) string {
	version, converged := i.Observed.GetVersion(), i.State == instancev1.State_STATE_CONVERGED
	switch {
	case version != r.Linked:
		return "another version is linked than listed"
	case version == "" && len(r.Processes) > 0:
		return "it is listed as absent and runs"
	case version == "":
		return ""
	case i.Health != instancev1.Health_HEALTH_GOOD:
		return "it is not healthy"
	case !slices.Equal(r.Processes, []string{version}):
		return "not exactly one process of the listed version"
	case r.Answers != version:
		return "it answers otherwise"
	case converged && i.Agent == tuner && r.Config != "level="+i.Configuration.GetMetadata()["level"]:
		return "it reads another configuration"
	}
	return ""
}
