// Package sockets holds the listening sockets of agents open while versions come and go.
//
// A socket belongs to an agent and an address, not to a version. It is opened once and passed to every version that
// names the address, so its queue of connections outlives each of them. A held socket is remembered by its inode: after
// a crash the executor takes the very same socket out of a process of the agent (pidfd_getfd(2)).
//
// Guarantees:
//
//  1. Hold opens all requested sockets, or none.
//  2. Only a socket that listens at the requested address is taken from a process, and only from the agent's own
//     processes.
//  3. Only Keep and Close close a held socket.
//  4. Files returns duplicates: closing them does not affect the Set, nor the Set them. They stay non-blocking:
//     processes that share a socket must not block in accept on a connection that another one got.
package sockets

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// Mark identifies a held socket across restarts.
type Mark struct {
	Listen string `json:"listen"`
	Inode  uint64 `json:"inode"`
}

// Config holds the dependencies of a Set. All are required.
type Config struct {
	Recall   func(agent string) ([]Mark, error)
	Remember func(agent string, marks []Mark) error // durably
	Holders  func(agent string) []int               // the ids of the agent's processes
	Log      zerolog.Logger
}

// Set holds the sockets of all agents. Its methods may be called from any goroutine.
type Set struct {
	cfg Config

	mu   sync.Mutex
	held map[string]map[string]held // by agent and address; the inner maps exist
}

// held is an open socket, listening and non-blocking.
type held struct {
	fd    int
	inode uint64
}

// New returns a set that holds no socket.
func New(cfg Config) *Set { return &Set{cfg: cfg, held: map[string]map[string]held{}} }

// of returns an agent's sockets by address.
func (s *Set) of(agent string) map[string]held {
	if s.held[agent] == nil {
		s.held[agent] = map[string]held{}
	}
	return s.held[agent]
}

// Hold opens an agent's sockets that are not open yet. The error carries the refusal SOCKET_TAKEN or BAD_SOCKET when an
// address cannot be listened at.
func (s *Set) Hold(agent string, wants []*imagev1.Socket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold(agent, wants)
}

func (s *Set) hold(agent string, wants []*imagev1.Socket) error {
	fresh, err := s.openMissing(agent, wants)
	if err == nil && len(fresh) > 0 {
		maps.Copy(s.of(agent), fresh)
		err = s.remember(agent, nil)
	}
	if err != nil {
		for listen, h := range fresh {
			delete(s.of(agent), listen)
			err = errors.Join(err, unix.Close(h.fd))
		}
	}
	return err
}

// openMissing opens the sockets that are not held yet, up to the first error.
func (s *Set) openMissing(agent string, wants []*imagev1.Socket) (fresh map[string]held, err error) {
	marks, err := s.cfg.Recall(agent)
	if err != nil {
		return nil, err
	}
	fresh = map[string]held{}
	for _, w := range wants {
		if _, ok := s.of(agent)[w.GetListen()]; ok {
			continue
		}
		if _, twice := fresh[w.GetListen()]; twice {
			return fresh, fault.Refusef(fault.Invalid, code.BadSocket,
				"two of the image's sockets are at %s", w.GetListen())
		}
		h, err := s.obtain(agent, w, marks)
		if err != nil {
			return fresh, err
		}
		fresh[w.GetListen()] = h
	}
	return fresh, nil
}

// obtain takes back a socket that an earlier executor opened, or opens one. If a version of the agent opened a socket
// at the address itself, that one is taken.
func (s *Set) obtain(agent string, w *imagev1.Socket, marks []Mark) (held, error) {
	at, err := parse(w)
	if err != nil {
		return held{}, err
	}
	if i := slices.IndexFunc(marks, func(m Mark) bool { return m.Listen == w.GetListen() }); i >= 0 {
		if h, ok := s.take(agent, at, marks[i].Inode); ok {
			return h, nil
		}
	}
	h, err := at.bind(w)
	if errors.Is(err, unix.EADDRINUSE) {
		if own, ok := s.take(agent, at, 0); ok {
			return own, nil
		}
	}
	return h, err
}

// take takes a socket from one of the agent's processes.
func (s *Set) take(agent string, at address, inode uint64) (held, bool) {
	h, err := at.take(s.cfg.Holders(agent), inode)
	if err != nil && !errors.Is(err, errNotHeld) {
		s.cfg.Log.Warn().Err(err).Str(logs.Agent, agent).Msg("socket not taken back")
	}
	return h, err == nil
}

// Regain takes back the sockets that earlier executors opened for an agent and its processes still hold. Hold opens the
// others anew.
func (s *Set) Regain(agent string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	marks, err := s.cfg.Recall(agent)
	if err != nil {
		return err
	}
	for _, m := range marks {
		at, err := parse(&imagev1.Socket{Listen: m.Listen})
		if _, have := s.of(agent)[m.Listen]; have || err != nil {
			continue
		}
		if h, ok := s.take(agent, at, m.Inode); ok {
			s.of(agent)[m.Listen] = h
		}
	}
	return nil
}

// Files returns duplicates of an agent's sockets, in the order of wants, and holds those that were not held before. The
// caller closes them.
func (s *Set) Files(agent string, wants []*imagev1.Socket) ([]*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.hold(agent, wants); err != nil {
		return nil, err
	}
	var out []*os.File
	for _, w := range wants {
		fd, err := unix.FcntlInt(uintptr(s.of(agent)[w.GetListen()].fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			for _, f := range out {
				_ = f.Close()
			}
			return nil, fmt.Errorf("duplicate the socket at %s: %w", w.GetListen(), err)
		}
		out = append(out, os.NewFile(uintptr(fd), w.GetListen()))
	}
	return out, nil
}

// Inodes returns the inodes of the sockets that are held for an agent.
func (s *Set) Inodes(agent string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held[agent] {
		out = append(out, strconv.FormatUint(h.inode, 10))
	}
	return out
}

// Keep closes and forgets an agent's sockets, except those in wants. Their addresses are free when it returns: a
// program that is being started holds a copy of each socket until its exec, and the lock of a fork waits for that.
func (s *Set) Keep(agent string, wants []*imagev1.Socket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	drop := func(listen string) bool {
		return !slices.ContainsFunc(wants, func(w *imagev1.Socket) bool { return w.GetListen() == listen })
	}
	if err := s.remember(agent, drop); err != nil {
		return err
	}
	var all error
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for listen, h := range s.of(agent) {
		if drop(listen) {
			all = errors.Join(all, unix.Close(h.fd))
			delete(s.of(agent), listen)
		}
	}
	return all
}

// remember records the held sockets, and earlier ones that could not be taken back, except those that drop selects. It
// writes only changes. drop may be nil.
func (s *Set) remember(agent string, drop func(listen string) bool) error {
	before, err := s.cfg.Recall(agent)
	if err != nil {
		return err
	}
	var marks []Mark
	for listen, h := range s.of(agent) {
		marks = append(marks, Mark{Listen: listen, Inode: h.inode})
	}
	for _, m := range before {
		if _, have := s.of(agent)[m.Listen]; !have {
			marks = append(marks, m)
		}
	}
	if drop != nil {
		marks = slices.DeleteFunc(marks, func(m Mark) bool { return drop(m.Listen) })
	}
	slices.SortFunc(marks, func(a, b Mark) int { return strings.Compare(a.Listen, b.Listen) })
	if slices.Equal(marks, before) {
		return nil
	}
	return s.cfg.Remember(agent, marks)
}

// Close closes all sockets; running agents keep theirs.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.held {
		for _, h := range of {
			_ = unix.Close(h.fd)
		}
	}
	s.held = map[string]map[string]held{}
}

// Inode returns the inode of a held socket.
func (s *Set) Inode(agent, listen string) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.of(agent)[listen]
	if !ok {
		return 0, fmt.Errorf("%s holds no socket at %s", agent, listen)
	}
	return h.inode, nil
}
