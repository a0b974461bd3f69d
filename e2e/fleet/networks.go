package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
)

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
