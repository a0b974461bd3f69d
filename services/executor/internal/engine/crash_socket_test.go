package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/polltest"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// ownAddress returns an address that stays free while no process listens there: a port of a random loopback address,
// which no outgoing connection uses.
func ownAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// listening checks that the installed version answers at its socket's address, and on the very same socket as before if
// an agent held it all the time.
func (l *life) listening(s *session, o operation, version string) (bad []string) {
	if !o.socket {
		return nil
	}
	if l.images[o.agent+version].GetRun().GetSockets() == nil {
		l.inode = 0
		return l.silent()
	}
	if got, err := ask(l.at); got != version || err != nil {
		bad = append(bad, fmt.Sprintf("%s answers %q (%v), want %s", l.at, got, err, version))
	}
	inode, err := s.rooms.sockets.Inode(o.agent, l.at)
	if err != nil || l.alwaysHeld(o) && l.inode != 0 && inode != l.inode {
		bad = append(bad, fmt.Sprintf("the socket is %d (%v), was %d", inode, err, l.inode))
	}
	l.inode = inode
	return bad
}

// silent checks that no process listens. A process that is being started holds its parent's sockets until its
// exec.
func (l *life) silent() (bad []string) {
	var got string
	var err error
	if !polltest.Within(polltest.Limit, func() bool {
		got, err = ask(l.at)
		return errors.Is(err, syscall.ECONNREFUSED)
	}) {
		return []string{fmt.Sprintf("%s answers %q (%v), although nothing is there", l.at, got, err)}
	}
	return nil
}

// alwaysHeld reports whether an agent holds the socket at every instant of an operation. During a restart only the
// executor does.
func (l *life) alwaysHeld(o operation) bool {
	return o.socket && l.images[o.agent+o.version].GetRun().GetTakeover() == imagev1.Takeover_TAKEOVER_OVERLAP
}

// connecting connects repeatedly through an operation in which no connection may be lost. The returned function ends
// that and adds the lost ones to the result.
func (l *life) connecting(o operation) func(*result) {
	if l.disk != nil || l.inode == 0 || !l.alwaysHeld(o) {
		return func(*result) {}
	}
	stop := asking(l.at, 5*time.Millisecond)
	return func(res *result) {
		if asked, wrong := stop(); len(wrong) > 0 {
			res.bad = append(res.bad,
				fmt.Sprintf("%d of %d connections were lost, first: %v", len(wrong), asked, wrong[0]))
		}
	}
}
