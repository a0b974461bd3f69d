package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// The ports of the members of a cluster, at loopback addresses that no other fleet has.
const (
	memberPort = "4222"
	routePort  = "6222"
)

// makeMembers makes the processes of a cluster with the flags of a garrisond that is alone.
func (f *Fleet) makeMembers(args []string) {
	network := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(250))
	if f.Networks {
		f.networks = newNetworks()
		network = f.networks.prefix
	}
	var members []string
	for n := range 3 {
		f.hosts = append(f.hosts, fmt.Sprintf("%s%d", network, n+1))
		members = append(members, net.JoinHostPort(f.hosts[n], routePort))
	}
	for n, host := range f.hosts {
		flags := append(slices.Clone(args), "--listen", net.JoinHostPort(host, memberPort), "--cluster",
			strings.Join(members, ","), "--data", f.memberDir(n))
		p := f.process(fmt.Sprintf("garrisond-%d", n+1), "garrisond", flags...)
		if f.Networks {
			f.networks.moveIn(p, n)
		}
		f.Members = append(f.Members, p)
	}
	f.Garrisond = f.Members[0]
}

func (f *Fleet) memberDir(n int) string {
	if n == 0 {
		return f.path("data")
	}
	return f.path(fmt.Sprintf("data-%d", n+1))
}

// startMembers shares the keys of the first member with the others, and starts all.
func (f *Fleet) startMembers(ctx context.Context) error {
	if err := f.garrisond(ctx, "export-keys", f.path("site.keys"), "--data", f.memberDir(0)); err != nil {
		return err
	}
	for n := 1; n < len(f.Members); n++ {
		if err := f.garrisond(ctx, "import-keys", f.path("site.keys"), "--data", f.memberDir(n)); err != nil {
			return err
		}
	}
	if err := f.networks.make(f.hosts); err != nil {
		return err
	}
	for _, m := range f.Members {
		if err := m.Start(); err != nil {
			return err
		}
	}
	if f.Apart {
		flags := []string{"provision", "--data", f.memberDir(0), "--url", f.URL(), "--replicas", "3"}
		if f.Lazy {
			flags = append(flags, "--allow-lazy-sync")
		}
		if err := f.garrisond(ctx, flags...); err != nil {
			return err
		}
	}
	return until(ctx, "every member listens", func(ctx context.Context) error {
		for _, host := range f.hosts {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, memberPort))
			if err != nil {
				return err
			}
			_ = c.Close()
		}
		return nil
	})
}

// garrisond runs a command of garrisond.
func (f *Fleet) garrisond(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, filepath.Join(f.Bin, "garrisond"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("garrisond %s: %w: %s", args[0], err, out)
	}
	return nil
}

// membersURL returns the addresses of the members for clients.
func (f *Fleet) membersURL() string {
	var urls []string
	for _, host := range f.hosts {
		urls = append(urls, "nats://"+net.JoinHostPort(host, memberPort))
	}
	return strings.Join(urls, ",")
}

// CutOff lets nothing pass between a member and anybody else, without a word to either side. It needs Networks.
func (f *Fleet) CutOff(n int) error { return f.networks.set(n, "down") }

// Rejoin ends CutOff.
func (f *Fleet) Rejoin(n int) error { return f.networks.set(n, "up") }

// MemberEnded returns an error with the end of its log for each member that ended by itself.
func (f *Fleet) MemberEnded() error {
	var errs []error
	for _, m := range f.Members {
		errs = append(errs, m.EndedByItself())
	}
	return errors.Join(errs...)
}

// LedgerLeader returns which member leads the ledger; -1 when it has no leader, or none of the members does.
func (f *Fleet) LedgerLeader(ctx context.Context) (int, error) {
	c, err := f.dialCore()
	if err != nil {
		return -1, err
	}
	defer c.Close()
	q, err := c.Quorum(ctx, topology.Ledger, topology.ServerOfBusSilent)
	return slices.Index(f.hosts, q.Leader), err
}

// networks are network namespaces, one for each member of a cluster, that a bridge connects with each other and with
// this host. A member whose side of the bridge is down is cut off: packets are lost, no connection is refused. The
// bridge has a namespace of its own, where the rules of this host's firewall do not count.
type networks struct {
	name   string // of the bridge's namespace, and the start of the other names
	prefix string // of the addresses
	made   [][]string
}

func newNetworks() *networks {
	a, b := 18+rand.IntN(2), rand.IntN(256) // of 198.18.0.0/15, which is for tests and hides no route of this host
	return &networks{name: fmt.Sprintf("gs%d-%d", a, b), prefix: fmt.Sprintf("198.%d.%d.", a, b)}
}

// CanCutOff returns why Options.Networks does not work here, or nil.
func CanCutOff() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	n := newNetworks()
	return errors.Join(n.make([]string{n.prefix + "1"}), n.remove())
}

func (n *networks) namespace(member int) string { return fmt.Sprintf("%s-%d", n.name, member+1) }

// side is the member's end of the bridge.
func side(member int) string { return fmt.Sprintf("member%d", member+1) }

// moveIn has a process run in the network of a member.
func (n *networks) moveIn(p *Process, member int) {
	p.args = append([]string{"netns", "exec", n.namespace(member), p.bin}, p.args...)
	p.bin = "/usr/sbin/ip"
	if found, err := exec.LookPath("ip"); err == nil {
		p.bin = found
	}
}

// make makes the bridge and the networks of members with these addresses.
func (n *networks) make(hosts []string) error {
	if n == nil {
		return nil
	}
	if err := n.add("netns", n.name, "netns add %s", n.name); err != nil {
		return err
	}
	var errs []error
	ip := func(format string, args ...any) { errs = append(errs, run(format, args...)) }
	ip("-n %s link add hub type bridge", n.name)
	ip("-n %s link set hub up", n.name)
	host := n.name + "h" // this host's end; it goes with the other one
	ip("link add %s type veth peer name host netns %s", host, n.name)
	ip("-n %s link set host master hub up", n.name)
	ip("addr add %s254/24 dev %s", n.prefix, host)
	ip("link set %s up", host)
	for member, address := range hosts {
		space, side := n.namespace(member), side(member)
		errs = append(errs, n.add("netns", space, "netns add %s", space))
		ip("-n %s link add %s type veth peer name eth0 netns %s", n.name, side, space)
		ip("-n %s link set %s master hub up", n.name, side)
		ip("-n %s addr add %s/24 dev eth0", space, address)
		ip("-n %s link set eth0 up", space)
		ip("-n %s link set lo up", space)
	}
	return errors.Join(errs...)
}

// add makes something that remove deletes.
func (n *networks) add(kind, name, format string, args ...any) error {
	if err := run(format, args...); err != nil {
		return err
	}
	n.made = append(n.made, []string{kind, name})
	return nil
}

func (n *networks) set(member int, state string) error {
	if n == nil {
		return errors.New("the members have no networks of their own")
	}
	return run("-n %s link set %s %s", n.name, side(member), state)
}

// remove deletes what was made.
func (n *networks) remove() error {
	if n == nil {
		return nil
	}
	var errs []error
	for _, m := range n.made {
		errs = append(errs, run("%s del %s", m[0], m[1]))
	}
	n.made = nil
	return errors.Join(errs...)
}

func run(format string, args ...any) error {
	words := strings.Fields(fmt.Sprintf(format, args...))
	if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
