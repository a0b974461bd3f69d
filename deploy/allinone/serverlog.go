package allinone

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/logs"
)

// serverLog writes the embedded server's log to ours: notices at level debug, warnings and errors at
// their own. What clients cause is written once a minute for each cause, with the number of lines that
// were left out: a client that is refused again and again must not fill the disk.
type serverLog struct {
	log zerolog.Logger

	mu     sync.Mutex
	causes map[cause]int // in this minute: how many lines were left out
	failed error         // the first error after which the server cannot do its work
}

// cause is who had a line written, and which.
type cause struct{ host, user, text string }

const (
	// logEvery is how long a cause is silent after its line.
	logEvery = time.Minute
	// maxCauses bounds the causes of a minute. All further ones are one cause.
	maxCauses = 500
)

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug().Msg(fmt.Sprintf(format, v...)) }
func (l *serverLog) Warnf(format string, v ...any)   { l.write(zerolog.WarnLevel, format, v...) }
func (l *serverLog) Errorf(format string, v ...any)  { l.write(zerolog.ErrorLevel, format, v...) }
func (l *serverLog) Debugf(string, ...any)           {}
func (l *serverLog) Tracef(string, ...any)           {}

// Fatalf writes an error after which the server cannot do its work, and keeps the first one for fatal. The server runs
// on.
func (l *serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Error().Msg(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = cmp.Or(l.failed, errors.New(text))
}

// fatal returns the first error after which the server cannot do its work; nil without one.
func (l *serverLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *serverLog) write(level zerolog.Level, format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if c, ok := causeOf(text); ok && !l.first(c) {
		return
	}
	l.log.WithLevel(level).Msg(text)
}

// first reports whether a cause has had no line in this minute.
func (l *serverLog) first(c cause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.causes == nil {
		l.causes = map[cause]int{}
		time.AfterFunc(logEvery, l.sum)
	}
	if _, known := l.causes[c]; !known && len(l.causes) >= maxCauses {
		c = cause{text: "others"}
	}
	if _, known := l.causes[c]; known {
		l.causes[c]++
		return false
	}
	l.causes[c] = 0
	return true
}

// sum writes how many lines of the minute were left out, and begins anew.
func (l *serverLog) sum() {
	l.mu.Lock()
	causes := l.causes
	l.causes = nil
	l.mu.Unlock()
	for c, n := range causes {
		if n > 0 {
			l.log.Warn().Str("host", c.host).Str("user", c.user).Str(logs.Reason, c.text).Int(logs.Count, n).
				Msg("lines left out within a minute")
		}
	}
}

var (
	// ofClient is a line about a connection: its address, its number, and the rest.
	ofClient = regexp.MustCompile(`^(\S+):\d+ - cid:\d+ - (.*)$`)
	// ofUser is the public key of a user in such a line.
	ofUser = regexp.MustCompile(`jwt:(U[A-Z2-7]{55})`)
	// varying is what differs from line to line: quoted texts, which clients choose, and numbers.
	varying = regexp.MustCompile(`"[^"]*"|\d+`)
)

// causeOf reads the cause of a line; ok is false for a line that no client caused.
func causeOf(text string) (c cause, ok bool) {
	m := ofClient.FindStringSubmatch(text)
	if m == nil {
		return c, false
	}
	c.host = m[1]
	if user := ofUser.FindStringSubmatch(m[2]); user != nil {
		c.user = user[1]
	}
	words := strings.Fields(varying.ReplaceAllString(m[2], ""))
	c.text = strings.Trim(strings.Join(words[:min(len(words), 12)], " "), "- ")
	return c, true
}
