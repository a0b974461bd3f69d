package supervise

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func TestAWaitEndsWhenTheCauseOfTheEndIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Policy{First: time.Second}
		began := time.Now()
		c := Cause{What: "127.0.0.1:80 is held", Gone: func() bool { return time.Since(began) >= 20*time.Second }}
		if !p.Pause(nil, time.Hour, c, zerolog.Nop()) || time.Since(began) != 20*time.Second {
			t.Errorf("it waited for %s, want 20s", time.Since(began))
		}
		began = time.Now()
		never := Cause{Gone: func() bool { return false }}
		if !p.Pause(nil, time.Minute, never, zerolog.Nop()) || time.Since(began) != time.Minute {
			t.Errorf("it waited for %s, want 1m0s", time.Since(began))
		}
		began = time.Now()
		if !p.Pause(nil, time.Second, Cause{Gone: func() bool { return true }}, zerolog.Nop()) ||
			time.Since(began) != time.Second {
			t.Errorf("a cause that was gone at once: it waited for %s, want the first wait", time.Since(began))
		}
		stop := make(chan struct{})
		close(stop)
		if p.Pause(stop, time.Hour, never, zerolog.Nop()) {
			t.Error("it was stopped, and starts")
		}
	})
}
