package polltest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/garrison-fleet/garrison/pkg/polltest"
)

func TestAWaitOfTenSecondsEndsSoonAndLooksFewTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		met := polltest.Within(time.Minute, func() bool { looks++; return time.Since(began) >= 10*time.Second })
		if late := time.Since(began) - 10*time.Second; !met || late > time.Second || looks > 80 {
			t.Errorf("met %v, %s late, after %d looks; want at most 1s and 80 looks", met, late, looks)
		}
	})
}

func TestAWaitEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		met := polltest.Within(time.Second, func() bool { return false })
		if took := time.Since(began); met || took > 1200*time.Millisecond {
			t.Errorf("met %v after %s; want not met after 1s", met, took)
		}
	})
}
