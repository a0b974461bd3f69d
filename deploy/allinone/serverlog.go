package allinone

import (
	"fmt"

	"github.com/rs/zerolog"
)

// serverLog passes the embedded server's log into ours: its notices are details to us,
// its warnings and errors are not.
type serverLog struct{ log zerolog.Logger }

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug().Msg(fmt.Sprintf(format, v...)) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warn().Msg(fmt.Sprintf(format, v...)) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log.Error().Msg(fmt.Sprintf(format, v...)) }
func (l *serverLog) Fatalf(format string, v ...any)  { l.log.Error().Msg(fmt.Sprintf(format, v...)) }
func (l *serverLog) Debugf(string, ...any)           {}
func (l *serverLog) Tracef(string, ...any)           {}
