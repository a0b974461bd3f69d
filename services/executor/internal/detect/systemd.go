package detect

import (
	"context"
	"errors"
	"strconv"
	"strings"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// units finds the services of systemd that run, failed or are enabled.
type units struct{}

// Name implements Detector.
func (units) Name() string { return "systemd" }

// unitProperties are read of each unit. None of them holds an environment.
const unitProperties = "Id,FragmentPath,MainPID,ActiveState,SubState,UnitFileState,LoadState"

// Detect implements Detector.
func (units) Detect(ctx context.Context, s *Scan) ([]*serverv1.Candidate, error) {
	systemctl := s.find("usr/bin/systemctl", "bin/systemctl")
	if systemctl == "" {
		return nil, nil // systemd does not run this server
	}
	shown, err := output(ctx, maxOutput, systemctl, "show", "*.service", "--no-pager", "--property="+unitProperties)
	if err != nil && strings.Contains(err.Error(), "not been booted with systemd") {
		return nil, nil
	}
	table, failed := s.table(ctx)
	var out []*serverv1.Candidate
	for _, u := range parseUnits(string(shown)) {
		if c := s.unit(u, table); c != nil {
			out = append(out, c)
		}
	}
	s.own(ctx, out, func(c *serverv1.Candidate) string { return c.Path })
	if !s.All {
		out = withoutBase(out)
	}
	return out, errors.Join(err, failed)
}

// withoutBase leaves out what the distribution's base packages bring.
func withoutBase(found []*serverv1.Candidate) (out []*serverv1.Candidate) {
	for _, c := range found {
		if !isBaseUnit(c.Name) && !isBasePackage(c.Package) {
			out = append(out, c)
		}
	}
	return out
}

// parseUnits reads what systemctl show prints: blocks of KEY=VALUE, with an empty line between them.
func parseUnits(text string) (out []map[string]string) {
	for block := range strings.SplitSeq(text, "\n\n") {
		u := map[string]string{}
		for line := range strings.Lines(block) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
				u[key] = value
			}
		}
		if u["Id"] != "" {
			out = append(out, u)
		}
	}
	return out
}

// unit returns the candidate of a unit; nil for one that is not of interest.
func (s *Scan) unit(u map[string]string, table map[int]*process) *serverv1.Candidate {
	name, pid := u["Id"], 0
	if n, err := strconv.Atoi(u["MainPID"]); err == nil {
		pid = n
	}
	used := pid != 0 || u["ActiveState"] == "failed" || u["UnitFileState"] == "enabled"
	p := table[pid]
	switch {
	case u["LoadState"] != "loaded", u["FragmentPath"] == "": // it has no file: another program made it
		return nil
	case !used && !s.All, s.Units != "" && strings.HasPrefix(name, s.Units), p != nil && s.ours(p):
		return nil
	}
	c := &serverv1.Candidate{
		Id: UnitID(name), Kind: serverv1.CandidateKind_CANDIDATE_KIND_UNIT, Name: name, Unit: name,
		Path: u["FragmentPath"], State: u["ActiveState"] + "/" + u["SubState"] + ", " + u["UnitFileState"],
	}
	if p != nil {
		p.describe(c)
		c.Unit = name
		for _, other := range table { // workers often hold the sockets
			if other.unit == name && other.pid != pid {
				c.Sockets = append(c.Sockets, other.sockets...)
			}
		}
		c.Sockets = sorted(c.Sockets)
	}
	return c
}
