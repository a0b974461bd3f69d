package detect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// apm finds the agents of Triton: the packages that its APM unpacked, and those that the platform's sysinfo names.
type apm struct{}

// Where Triton keeps its agents, and the limits of their files.
const (
	apmDir      = "opt/smartdc/agents"
	apmModules  = "lib/node_modules"
	maxManifest = 64 << 10
	maxAgents   = 1000
)

// Name implements Detector.
func (apm) Name() string { return "apm" }

// Detect implements Detector.
func (apm) Detect(ctx context.Context, s *Scan) ([]*serverv1.Candidate, error) {
	out, err := s.modules()
	told, failed := s.sdcAgents(ctx)
	return append(out, missingFrom(out, told)...), errors.Join(err, failed)
}

// modules returns the agents that APM unpacked.
func (s *Scan) modules() (out []*serverv1.Candidate, err error) {
	dir, err := s.below(apmDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.list(apmModules, maxAgents)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") || strings.Contains(name, ".updating-to.") { // a copy during an update
			continue
		}
		c, failed := module(dir, name)
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("agent %s: %w", name, failed))
		}
		if c != nil {
			out = append(out, c)
		}
	}
	return out, err
}

// module returns the agent in one directory; nil without a package.json.
func module(dir tree, name string) (*serverv1.Candidate, error) {
	data, err := dir.read(apmModules+"/"+name+"/package.json", maxManifest)
	if err != nil {
		return nil, err
	}
	var manifest struct{ Name, Version string }
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, err
	}
	c := &serverv1.Candidate{
		Id: ID("apm", name), Kind: serverv1.CandidateKind_CANDIDATE_KIND_TREE, Name: name, Version: manifest.Version,
		Path: "/" + apmDir + "/" + apmModules + "/" + name,
	}
	var state []string
	if image, err := dir.read(apmModules+"/"+name+"/image_uuid", 256); err == nil {
		state = append(state, "image "+strings.TrimSpace(string(image)))
	}
	if instance, err := dir.read("etc/"+name, 256); err == nil {
		state = append(state, "instance "+strings.TrimSpace(string(instance)))
	}
	for _, file := range []string{"smf/" + name + ".xml", "etc/config-agent.d/" + name + ".json"} {
		if _, err := dir.Stat(file); err == nil {
			c.Files = append(c.Files, "/"+apmDir+"/"+file)
		}
	}
	c.State = strings.Join(state, ", ")
	return c, nil
}

// sdcAgents returns the agents that the platform's sysinfo names.
func (s *Scan) sdcAgents(ctx context.Context) (out []*serverv1.Candidate, err error) {
	program := s.find("usr/bin/sysinfo")
	if program == "" {
		return nil, nil
	}
	printed, err := output(ctx, maxOutput, program)
	if err != nil {
		return nil, err
	}
	var info struct {
		Agents []struct{ Name, Version string } `json:"SDC Agents"`
	}
	if err := json.Unmarshal(printed, &info); err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	for _, a := range info.Agents[:min(len(info.Agents), maxAgents)] {
		out = append(out, &serverv1.Candidate{
			Id: ID("apm", a.Name), Kind: serverv1.CandidateKind_CANDIDATE_KIND_TREE, Name: a.Name, Version: a.Version,
			State: "in sysinfo only",
		})
	}
	return out, nil
}

// missingFrom returns the candidates that are not among others.
func missingFrom(others, all []*serverv1.Candidate) (out []*serverv1.Candidate) {
	known := map[string]bool{}
	for _, c := range others {
		known[c.Id] = true
	}
	for _, c := range all {
		if !known[c.Id] {
			out = append(out, c)
		}
	}
	return out
}
