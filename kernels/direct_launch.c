/* Starts a compiled kernel as cuLaunchKernel takes it: its parameters are packed once, and a start
   replaces the addresses that come first. Reading them again from Python costs more than a start. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define MOST_PARAMETERS 64
#define NAME "direct_launch.Kernel"

/* cuLaunchKernel: function, grid, block, shared memory, stream, parameters, extra. */
typedef int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      void *, void **, void **);

typedef struct {
    Launch launch;
    void *function;
    unsigned threads, shared;
    int parameters, changing;
    uint64_t values[MOST_PARAMETERS]; /* each begins with its parameter's bytes */
} Kernel;

static void release(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, NAME)); }

/* launch, function: addresses; threads, shared; parameters: 8 bytes each; how many change. */
static PyObject *prepare(PyObject *self, PyObject *args) {
    unsigned long long launch, function;
    Py_buffer packed;
    Kernel kernel = {0}, *kept;
    PyObject *capsule;
    if (!PyArg_ParseTuple(args, "KKIIy*i", &launch, &function, &kernel.threads, &kernel.shared,
                          &packed, &kernel.changing))
        return NULL;
    kernel.launch = (Launch)(uintptr_t)launch, kernel.function = (void *)(uintptr_t)function;
    kernel.parameters = (int)(packed.len / 8);
    if (packed.len > (Py_ssize_t)sizeof kernel.values || kernel.changing < 0 ||
        kernel.changing > kernel.parameters) {
        PyBuffer_Release(&packed);
        return PyErr_Format(PyExc_ValueError, "a kernel has at most %d parameters, and no more of "
                            "them change", MOST_PARAMETERS);
    }
    memcpy(kernel.values, packed.buf, packed.len);
    PyBuffer_Release(&packed);
    if (!(kept = PyMem_Malloc(sizeof kernel))) return PyErr_NoMemory();
    *kept = kernel;
    if (!(capsule = PyCapsule_New(kept, NAME, release))) PyMem_Free(kept);
    return capsule;
}

/* Read the addresses of a tuple or list, and of those in it, in order; None has none. */
static int read_into(PyObject *given, uint64_t *values, int found, int most) {
    if (given == Py_None) return found;
    if (PyLong_Check(given)) {
        if (found == most) return most + 1;
        values[found] = PyLong_AsUnsignedLongLong(given);
        return PyErr_Occurred() ? -1 : found + 1;
    }
    if (!PyTuple_Check(given) && !PyList_Check(given)) return most + 1;
    PyObject **items = PySequence_Fast_ITEMS(given);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given) && found >= 0 && found <= most; i++)
        found = read_into(items[i], values, found, most);
    return found;
}

/* kernel, programs along x, y and z, stream, addresses. */
static PyObject *start(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 6) return PyErr_Format(PyExc_TypeError, "start takes 6 arguments");
    Kernel *kernel = PyCapsule_GetPointer(args[0], NAME);
    if (!kernel) return NULL;
    unsigned long grid[3];
    for (int i = 0; i < 3; i++) grid[i] = PyLong_AsUnsignedLong(args[1 + i]);
    void *stream = PyLong_AsVoidPtr(args[4]);
    if (PyErr_Occurred()) return NULL;
    /* of this call alone: another thread may start the same kernel while the driver reads them */
    uint64_t values[MOST_PARAMETERS];
    void *parameters[MOST_PARAMETERS];
    memcpy(values, kernel->values, kernel->parameters * sizeof *values);
    for (int i = 0; i < kernel->parameters; i++) parameters[i] = &values[i];
    int found = read_into(args[5], values, 0, kernel->changing), result = 0;
    if (found < 0) return NULL;
    if (found != kernel->changing)
        return PyErr_Format(PyExc_TypeError, "the kernel takes %d addresses", kernel->changing);
    if (!grid[0] || !grid[1] || !grid[2]) Py_RETURN_NONE;
    /* the driver waits while its queue is full */
    Py_BEGIN_ALLOW_THREADS;
    result = kernel->launch(kernel->function, grid[0], grid[1], grid[2], kernel->threads, 1, 1,
                            kernel->shared, stream, parameters, NULL);
    Py_END_ALLOW_THREADS;
    if (result) return PyErr_Format(PyExc_RuntimeError, "cuLaunchKernel: CUDA error %d", result);
    Py_RETURN_NONE;
}

static int nothing(void *function, unsigned x, unsigned y, unsigned z, unsigned threads,
                   unsigned threads_y, unsigned threads_z, unsigned shared, void *stream,
                   void **parameters, void **extra) {
    return 0;
}

static PyMethodDef methods[] = {
    {"prepare", prepare, METH_VARARGS, NULL},
    {"start", (PyCFunction)(void (*)(void))start, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "direct_launch", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit_direct_launch(void) {
    PyObject *made = PyModule_Create(&module);
    /* a launch that starts nothing, to time what comes before it */
    PyObject *address = PyLong_FromVoidPtr((void *)(uintptr_t)nothing);
    if (made && PyModule_AddObject(made, "NOTHING", address)) Py_CLEAR(made);
    return made;
}
