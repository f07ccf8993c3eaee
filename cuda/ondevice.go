package cuda

import "errors"

// OnDevice opens the driver and one of its devices, and calls f on a thread that is on the device. The stream is one of its own, which
// does not order with the legacy default stream. When f returns, stream and device are given back. Work that f has left on the stream is
// still carried out. Its memory is the caller's affair. The error is that of f, or of what could not be opened or given back.
//
// Index tells the number of the device, as pg.LocalRank does. Where the launcher shows each process one GPU alone, it is 0. For one
// device and one goroutine it takes the place of Open, Driver.Device, Device.Enter and Thread.NewStream.
func OnDevice(index func() (int, error), f func(t Thread, s Stream) error) error {
	i, err := index()
	if err != nil {
		return err
	}
	driver, err := Open()
	if err != nil {
		return err
	}
	return driver.OnDevice(i, f)
}

// OnDevice does the same with a driver that is open, such as that of package cudasim, and the device with the given ordinal.
func (d *Driver) OnDevice(index int, f func(t Thread, s Stream) error) (err error) {
	device, err := d.Device(index)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	t, err := device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	s, err := t.NewStream(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.DestroyStream(s)) }()
	return f(t, s)
}
