package agent

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
	"github.com/garrison-fleet/garrison/services/executor/internal/listening"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// An answer at an address proves that an agent works only when the agent gave it. So a probe over HTTP or TCP counts
// when the socket that accepts there is held by a process of the agent: one of its service, session or control group,
// a descendant of one, one that has its environment, or the executor for it (run.sockets). Where the kernel shows no
// socket or no holder, as behind a rule that forwards, the answer counts.

// Probe returns how the version's health is checked, and by whom the answer must come.
func (p *Processes) Probe(v Version, ready <-chan struct{}) (healthcheck.Spec, error) {
	spec, err := p.Specs.Probe(v, ready)
	spec.Owned = func(at netip.AddrPort) error {
		if h := p.holder(v, at); h != nil {
			return fmt.Errorf("%s is held by %s, not by %s", at, h, v.Agent)
		}
		return nil
	}
	return spec, err
}

// resolveWithin bounds the look-up of a probe's host.
const resolveWithin = 2 * time.Second

// CheckPort refuses a version whose probe has an address that is held by something else than its agent.
func (p *Processes) CheckPort(ctx context.Context, v Version) error {
	if !v.Image.IsDaemon() {
		return nil
	}
	spec, err := p.Specs.Probe(v, nil)
	if err != nil || spec.Address() == "" {
		return err
	}
	for _, at := range resolve(ctx, spec.Address()) {
		if h := p.holder(v, at); h != nil {
			return fault.Refusef(fault.Invalid, code.SocketTaken,
				"the image's health check asks %s, which is held by %s, not by %s", at, h, v.Agent)
		}
	}
	return nil
}

// resolve returns the addresses of HOST:PORT; none when they are unknown, which the probe itself will tell.
func resolve(ctx context.Context, address string) (out []netip.AddrPort) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil
	}
	if host == "" {
		host = "127.0.0.1"
	}
	hosts, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, h := range hosts {
		out = append(out, netip.AddrPortFrom(h.Unmap(), uint16(port)))
	}
	return out
}

// holder returns what holds an address; nil when that is the agent, nothing, or unknown.
func (p *Processes) holder(v Version, at netip.AddrPort) *listening.Holder {
	inodes := listening.At(at)
	if len(inodes) == 0 || slices.ContainsFunc(p.sockets.Inodes(v.Agent), func(inode string) bool {
		return slices.Contains(inodes, inode)
	}) {
		return nil
	}
	mine := p.mains(v)
	if listening.Any(inodes, mine) {
		return nil // most agents: nothing else is looked at
	}
	mine = p.withRest(v, mine)
	h := listening.Who(inodes, func(pid int) bool { return slices.Contains(mine, pid) || p.owns(v, mine, pid) })
	if h.Mine || h.Pid == 0 && !h.Outside {
		return nil
	}
	return &h
}

// mains returns the processes of an agent's units.
func (p *Processes) mains(v Version) (out []int) {
	p.mu.Lock()
	units := slices.Collect(maps.Values(p.units[v.Agent]))
	p.mu.Unlock()
	for _, u := range units {
		if pid := u.Status().Pid; pid > 0 {
			out = append(out, pid)
		}
	}
	if supervise.Lives(v.Adopted) {
		out = append(out, v.Adopted.Pid)
	}
	return out
}

// withRest adds the other processes that the supervisor knows of an agent, and those that descend from them.
func (p *Processes) withRest(v Version, out []int) []int {
	out = append(out, p.supervisor.Members(v.Agent)...)
	slices.Sort(out)
	for _, pid := range slices.Compact(slices.Clone(out)) {
		for _, c := range proctree.Descendants(pid) {
			out = append(out, c.Pid)
		}
	}
	return out
}

// owns reports whether a process belongs to an agent: it has the agent's environment, or the control group of one of
// its known processes. systemd itself holds the sockets of services that another program installed.
func (p *Processes) owns(v Version, known []int, pid int) bool {
	if proctree.Variable(pid, stateVariable) == p.Root.State(v.Agent) {
		return true
	}
	if pid == 1 && v.Adopted != nil && v.Adopted.Service != "" {
		return true
	}
	group := groupOf(strconv.Itoa(pid))
	return len(group) > 0 && !bytes.Equal(group, groupOf("self")) &&
		slices.ContainsFunc(known, func(k int) bool { return bytes.Equal(group, groupOf(strconv.Itoa(k))) })
}

// groupOf returns the control groups of a process as the kernel prints them; empty when it ended.
func groupOf(pid string) []byte {
	data, _ := os.ReadFile("/proc/" + pid + "/cgroup")
	return data
}
