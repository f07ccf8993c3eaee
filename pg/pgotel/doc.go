// Package pgotel makes an OpenTelemetry span of each operation of a group. It is a module of its own, so that programs without spans
// need nothing of OpenTelemetry.
//
//	g, err := pg.Init(ctx, pg.Config{})
//	...
//	pgotel.Trace(ctx, g, otel.Tracer("trainer"))
//
// Invariants:
//
//  1. An operation waits for no span: spans are made when the group's completion hook hears of its end.
//  2. A span's times are those of the operation, whenever the hook hears of it.
//  3. Spans of all ranks agree in group, operation and number, which join them across processes.
package pgotel
