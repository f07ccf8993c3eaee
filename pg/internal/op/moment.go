package op

import "time"

// Moment is a time by the clock that nobody sets: nanoseconds since the process began, and 0 if it is not known. It takes a third of the
// memory of a time.Time. The duration from one moment to another is their difference, which is less code than that of two times.
type Moment int64

// beginning is the moment 1.
var beginning = time.Now()

// Now returns the moment.
func Now() Moment { return Moment(time.Since(beginning)) + 1 }

// MomentOf returns the moment of a time.
func MomentOf(t time.Time) Moment { return Moment(t.Sub(beginning)) + 1 }

// Time returns a time that compares with others as the moment does. Its hour of the day is by the clock as it was when the process began.
func (m Moment) Time() time.Time { return beginning.Add(time.Duration(m - 1)) }
