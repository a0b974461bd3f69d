package executor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// manager is the service manager that started this process, where it listens (sd_notify(3)):
// it hears that the process is up, and, where it watches (WatchdogSec=), again and again
// that the executor lives. When it hears nothing for as long as it was told to wait, it
// ends the process and starts it again. A nil manager hears nothing.
type manager struct {
	socket string
	within time.Duration // how long it waits for the next word; 0 when it does not watch
	log    zerolog.Logger
}

const (
	startWithin = 30 * time.Minute // a start, with the end of what was interrupted
	sayWithin   = time.Second      // one word to the manager
)

// managerOf gives the service manager of a process that is an executor and nothing else. On
// trial it is not the process that the manager started, which waits for it.
func managerOf(cfg Config) *manager {
	socket := os.Getenv("NOTIFY_SOCKET")
	if cfg.Args == nil || socket == "" || os.Getenv(trialVariable) != "" {
		return nil
	}
	m := &manager{socket: socket, log: cfg.Log}
	if pid := os.Getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
		usec, _ := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64) // it does not watch when this says nothing
		m.within = time.Duration(max(usec, 0)) * time.Microsecond
	}
	return m
}

// up says that the process is up. What it has to finish first may take longer than the
// manager waits for a word otherwise.
func (m *manager) up() { m.say(append(m.words(startWithin), "READY=1")...) }

// expect says that this executor lives, and until when the manager is to hear of it again.
func (m *manager) expect(within time.Duration) { m.say(m.words(within)...) }

// words is what expect says.
func (m *manager) words(within time.Duration) []string {
	if m == nil || m.within == 0 {
		return nil
	}
	return []string{"WATCHDOG_USEC=" + strconv.FormatInt(max(within, m.within).Microseconds(), 10), "WATCHDOG=1"}
}

// leave ends the watch, for a program that may be older than it. One that is not begins it anew.
func (m *manager) leave() {
	if m != nil && m.within > 0 {
		m.say("WATCHDOG_USEC=0")
	}
}

// say sends words, in one message. One that is lost is made up for by the next.
func (m *manager) say(words ...string) {
	if m == nil || len(words) == 0 {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(sayWithin))
		if err == nil {
			_, err = conn.Write([]byte(strings.Join(words, "\n")))
		}
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		m.log.Warn().Err(err).Msg("service manager not told")
	}
}

// watched gives the part of a life that tells the manager of it, from when it is ready and
// while it is alive; none where nobody watches.
func (m *manager) watched(ready <-chan struct{}, alive func(context.Context) error) []lifecycle.Part {
	if m == nil || m.within == 0 {
		return nil
	}
	return []lifecycle.Part{{Name: "watchdog", Run: func(ctx context.Context) error {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		tick := time.NewTicker(m.within / 4)
		defer tick.Stop()
		for {
			try, cancel := context.WithTimeout(ctx, m.within)
			err := alive(try)
			cancel()
			if err == nil {
				m.expect(m.within)
			} else if ctx.Err() == nil {
				m.log.Error().Err(err).Msg("service manager is not told that this executor lives")
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	}}}
}

// livesBy gives what an executor lives by: the loop of its engine, if it has one, turns, and the journal can be
// written. A disk or a quota that is full is no reason to start anew: it was so before.
func livesBy(e *engine.Engine, j *journal.Journal) func(context.Context) error {
	return func(ctx context.Context) error {
		if e != nil {
			if err := e.Turn(ctx); err != nil {
				return fmt.Errorf("the engine's loop does not turn: %w", err)
			}
		}
		return unlessFull(j.Update(func(*journal.Tx) error { return nil }))
	}
}

func unlessFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil
	}
	return err
}
