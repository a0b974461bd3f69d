package sockets

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
)

// Mark is what is remembered of a socket.
type Mark struct {
	Listen string `json:"listen"`
	Inode  uint64 `json:"inode"`
}

// Config is what a Set needs. Everything must be set.
type Config struct {
	Recall   func(agent string) ([]Mark, error)
	Remember func(agent string, marks []Mark) error // durably
	Holders  func(agent string) []int               // the ids of the agent's processes
	Log      zerolog.Logger
}

// Set is every socket that is held. Its methods may be called from any goroutine.
type Set struct {
	cfg Config

	mu   sync.Mutex
	held map[string]map[string]held // by agent and address
}

// held is an open socket, listening and non-blocking.
type held struct {
	fd    int
	inode uint64
}

// New gives a set that holds nothing.
func New(cfg Config) *Set { return &Set{cfg: cfg, held: map[string]map[string]held{}} }

// Hold makes sure that an agent's sockets are open. An error carries the refusal
// SOCKET_TAKEN or BAD_SOCKET when an address cannot be listened at.
func (s *Set) Hold(agent string, wants []*imagev1.Socket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold(agent, wants)
}

func (s *Set) hold(agent string, wants []*imagev1.Socket) error {
	fresh, err := s.openMissing(agent, wants)
	if err != nil || len(fresh) == 0 {
		return err
	}
	if s.held[agent] == nil {
		s.held[agent] = map[string]held{}
	}
	for listen, h := range fresh {
		s.held[agent][listen] = h
	}
	if err := s.remember(agent, nil); err != nil {
		for listen, h := range fresh {
			delete(s.held[agent], listen)
			err = errors.Join(err, unix.Close(h.fd))
		}
		return err
	}
	return nil
}

// openMissing gives the sockets that are not held yet, all of them or none.
func (s *Set) openMissing(agent string, wants []*imagev1.Socket) (fresh map[string]held, err error) {
	fresh = map[string]held{}
	defer func() {
		if err != nil {
			for _, h := range fresh {
				_ = unix.Close(h.fd)
			}
		}
	}()
	marks, err := s.cfg.Recall(agent)
	if err != nil {
		return nil, err
	}
	for _, w := range wants {
		if _, ok := s.held[agent][w.GetListen()]; ok {
			continue
		}
		if _, twice := fresh[w.GetListen()]; twice {
			return fresh, refuse(CodeBadSocket, "two of the image's sockets are at %s", w.GetListen())
		}
		h, err := s.obtain(agent, w, marks)
		if err != nil {
			return fresh, err
		}
		fresh[w.GetListen()] = h
	}
	return fresh, nil
}

// obtain takes a socket back that an earlier executor opened, or opens one. A version
// that listened by itself hands its socket over to one that declares it.
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

// Regain takes back what earlier executors opened for an agent and its processes still
// hold. What none holds any more is opened when it is asked for.
func (s *Set) Regain(agent string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	marks, err := s.cfg.Recall(agent)
	if err != nil {
		return err
	}
	for _, m := range marks {
		at, err := parse(&imagev1.Socket{Listen: m.Listen})
		if _, have := s.held[agent][m.Listen]; have || err != nil {
			continue
		}
		if h, ok := s.take(agent, at, m.Inode); ok {
			if s.held[agent] == nil {
				s.held[agent] = map[string]held{}
			}
			s.held[agent][m.Listen] = h
		}
	}
	return nil
}

// Files gives duplicates of an agent's sockets, in the order of wants, and holds those
// that were not held before. The caller closes them.
func (s *Set) Files(agent string, wants []*imagev1.Socket) ([]*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.hold(agent, wants); err != nil {
		return nil, err
	}
	var out []*os.File
	for _, w := range wants {
		fd, err := unix.FcntlInt(uintptr(s.held[agent][w.GetListen()].fd), unix.F_DUPFD_CLOEXEC, 0)
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

// Keep closes and forgets every socket of an agent but those in wants.
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
	for listen, h := range s.held[agent] {
		if drop(listen) {
			all = errors.Join(all, unix.Close(h.fd))
			delete(s.held[agent], listen)
		}
	}
	return all
}

// remember writes down what is held, and what was but could not be taken back, unless
// it is dropped or nothing changed.
func (s *Set) remember(agent string, drop func(listen string) bool) error {
	before, err := s.cfg.Recall(agent)
	if err != nil {
		return err
	}
	var marks []Mark
	for listen, h := range s.held[agent] {
		marks = append(marks, Mark{Listen: listen, Inode: h.inode})
	}
	for _, m := range before {
		if _, have := s.held[agent][m.Listen]; !have {
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

// Close closes every socket; agents that have them keep them.
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

// Inode gives what tells a held socket from every other.
func (s *Set) Inode(agent, listen string) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held[agent][listen]
	if !ok {
		return 0, fmt.Errorf("%s holds no socket at %s", agent, listen)
	}
	return h.inode, nil
}
