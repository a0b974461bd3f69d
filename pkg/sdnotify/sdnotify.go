// Package sdnotify tells the service manager that started this process how it is (sd_notify(3)):
// that it is up, and, where the manager watches (WatchdogSec=), at an interval that it is alive.
// A manager that hears nothing for too long ends the process and starts it again.
//
// A nil Notifier sends nothing. A message that cannot be sent is logged and made up for by the next.
package sdnotify

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/rungroup"
)

// Notifier sends to the service manager.
type Notifier struct {
	socket string
	within time.Duration // the manager's limit between two messages; 0 when it does not watch
	log    zerolog.Logger
}

const (
	// StartWithin bounds a start, including the end of interrupted changes.
	StartWithin = 30 * time.Minute
	sendWithin  = time.Second // one message
)

// FromEnv returns the notifier of this process, or nil when no manager listens.
func FromEnv(log zerolog.Logger) *Notifier {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	n := &Notifier{socket: socket, log: log}
	if pid := os.Getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
		usec, _ := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64) // unset or invalid: not watched
		n.within = time.Duration(max(usec, 0)) * time.Microsecond
	}
	return n
}

// Ready reports that the process is up. Its first work may take longer than the manager's limit.
func (n *Notifier) Ready() { n.send(append(n.alive(StartWithin), "READY=1", "STATUS=")...) }

// Waits reports that the process is up and waits for a person, for as long as that takes. Ready ends it.
func (n *Notifier) Waits(status string) {
	n.Leave()
	n.send("READY=1", "STATUS="+status)
}

// Expect reports that the process is alive, and until when the next message comes.
func (n *Notifier) Expect(within time.Duration) { n.send(n.alive(within)...) }

// alive returns the message of Expect.
func (n *Notifier) alive(within time.Duration) []string {
	if n == nil || n.within == 0 {
		return nil
	}
	return []string{"WATCHDOG_USEC=" + strconv.FormatInt(max(within, n.within).Microseconds(), 10), "WATCHDOG=1"}
}

// Leave ends the watch, for example before this process becomes another program, which may be too old to send
// anything. A newer one begins it again.
func (n *Notifier) Leave() {
	if n != nil && n.within > 0 {
		n.send("WATCHDOG_USEC=0")
	}
}

// send sends lines in one message.
func (n *Notifier) send(lines ...string) {
	if n == nil || len(lines) == 0 {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(sendWithin))
		if err == nil {
			_, err = conn.Write([]byte(strings.Join(lines, "\n")))
		}
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		n.log.Warn().Err(err).Msg("service manager not notified")
	}
}

// Watched returns the part of a run that reports that the process is alive, from when ready is
// closed and while alive returns nil; none where the manager does not watch.
func (n *Notifier) Watched(ready <-chan struct{}, alive func(context.Context) error) []rungroup.Part {
	if n == nil || n.within == 0 {
		return nil
	}
	return []rungroup.Part{{Name: "watchdog", Run: func(ctx context.Context) error {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		tick := time.NewTicker(n.within / 4)
		defer tick.Stop()
		for {
			try, cancel := context.WithTimeout(ctx, n.within)
			err := alive(try)
			cancel()
			if err == nil {
				n.Expect(n.within)
			} else if ctx.Err() == nil {
				n.log.Error().Err(err).Msg("not alive; service manager not notified")
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	}}}
}
