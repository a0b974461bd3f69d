package allinone

import (
	"fmt"
	"strings"

	"github.com/rs/zerolog"
)

// serverLog passes what the embedded server has to say into our log: its notices are
// details to us, its warnings and errors are not. The log is also the only place where
// the server says that it could not write.
type serverLog struct {
	log         zerolog.Logger
	writeFailed func()
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug().Msg(fmt.Sprintf(format, v...)) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warn().Msg(fmt.Sprintf(format, v...)) }
func (l *serverLog) Fatalf(format string, v ...any)  { l.log.Error().Msg(fmt.Sprintf(format, v...)) }
func (l *serverLog) Debugf(string, ...any)           {}
func (l *serverLog) Tracef(string, ...any)           {}

func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Error().Msg(text)
	if strings.Contains(text, "failed to store a msg") || strings.Contains(text, "Critical write error") {
		l.writeFailed()
	}
}
