package allinone

import (
	"context"
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
