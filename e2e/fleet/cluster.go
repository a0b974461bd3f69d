package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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
	return f.until(ctx, "every member listens", func(ctx context.Context) error {
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

// MemberURL returns the address of one member for clients.
func (f *Fleet) MemberURL(n int) string { return "nats://" + net.JoinHostPort(f.hosts[n], memberPort) }

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
