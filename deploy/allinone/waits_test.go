package allinone

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// neverReady is a server that never listens.
type neverReady struct{}

func (neverReady) ReadyForConnections(within time.Duration) bool {
	time.Sleep(within)
	return false
}

func TestTheWaitForAServerThatNeverListensEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		signal, fails time.Duration
		after         time.Duration
		want          string
	}{
		"with a signal":                      {signal: 4 * time.Second, after: 4 * time.Second, want: "canceled"},
		"with the error that the server met": {fails: 2 * time.Second, after: 2 * time.Second, want: "port: 6222"},
		"by itself":                          {after: listensWithin, want: "not ready for connections after 30s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				log := &serverLog{log: zerolog.Nop()}
				if test.signal > 0 {
					time.AfterFunc(test.signal, cancel)
				}
				if test.fails > 0 {
					time.AfterFunc(test.fails, func() { log.Fatalf("Error listening on router port: %d", 6222) })
				}
				began := time.Now()
				err := waitListening(ctx, neverReady{}, log.fatal)
				if late := time.Since(began) - test.after; late < 0 || late > looksEvery {
					t.Errorf("it ended after %s, want %s", time.Since(began), test.after)
				}
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %q", err, test.want)
				}
			})
		})
	}
}

// refuses is a bus that refuses connections.
type refuses struct{}

func (refuses) WaitConnected(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (refuses) Away() error { return errors.New("connection refused") }

func TestABusThatCannotBeReachedIsNamedSoonAndAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for within, want := range map[time.Duration]int{
			sayAwayFirst / 2: 0, time.Second: 1, time.Second + sayAway: 2, time.Second + 2*sayAway: 3,
		} {
			var out bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), within)
			err := Provisioning{URL: "tls://bus:4222", Log: &out}.waitConnected(ctx, refuses{})
			cancel()
			if err == nil {
				t.Error("it is connected")
			}
			line := "waiting for the bus at tls://bus:4222: connection refused\n"
			if out.String() != strings.Repeat(line, want) {
				t.Errorf("within %s it printed %q, want %d lines", within, out.String(), want)
			}
		}
	})
}
